package provider

import (
	"crypto"
	"errors"
	"fmt"
	"net/url"
	"path"
	"strings"
	"time"
)

// Remote says where a sender publishes its keys. Nothing here fetches them: a Keys does, beside the
// requests, so that no verdict waits for a network.
type Remote struct {
	Form RemoteForm
	// URL is where the keys are, or URLFrom is where the request names the URL. In the latter case
	// Hosts and Path bound what a stranger can make us fetch.
	URL     string
	URLFrom Source
	// Hosts are the names that may serve the key. A label * stands for any one label.
	Hosts []string
	// Path is the path of the URL with at most one *, which stands for anything but a slash; empty:
	// any path.
	Path string
	// Post are the fields of a JSON object that is posted; none: the keys are got.
	Post []PostField
	// At is the JSON pointer of the key in the answer, for RemoteJWK; none: the answer is the key.
	At Source
	// Name is the host name that the certificate must be for, with a chain to a root that the fetcher
	// trusts. Empty: the server that gave it, by TLS, is proof enough.
	Name string
}

// RemoteForm is what is found at a URL.
type RemoteForm uint8

// The forms: a JSON Web Key Set (RFC 7517), a single JSON Web Key, a certificate in PEM with those
// of its issuers behind it, if any.
const (
	RemoteJWKS RemoteForm = iota + 1
	RemoteJWK
	RemoteCertificate
)

var remoteWords = map[string]RemoteForm{
	"jwks": RemoteJWKS, "jwk": RemoteJWK, "certificate": RemoteCertificate,
}

// ParseRemoteForm reads jwks, jwk or certificate.
func ParseRemoteForm(text string) (RemoteForm, error) {
	return parseWord(remoteWords, text, "form")
}

// PostField is a field of what is posted for a key.
type PostField struct {
	Name string
	From PostValue
}

// PostValue is what a PostField holds.
type PostValue uint8

// The values: the id of the key, and the parts of the secret that has a user and a password.
const (
	PostKeyID PostValue = iota + 1
	PostUser
	PostPassword
)

var postWords = map[string]PostValue{
	"key_id": PostKeyID, "user": PostUser, "password": PostPassword,
}

// ParsePostValue reads key_id, user or password.
func ParsePostValue(text string) (PostValue, error) { return parseWord(postWords, text, "value") }

// Keys knows the keys that senders publish. Key returns at once, whatever the network does: a key
// that is not here yet is fetched beside. It is called by several goroutines, for requests of
// strangers, so what it keeps and what it fetches has to be bounded.
type Keys interface {
	Key(KeyName) (*PublicKey, KeyState)
}

// KeyName names a published key.
type KeyName struct {
	From *Remote
	// URL is where the key is. It has been held against From.
	URL string
	// ID is the key's id as the request has it; empty where the URL alone names the key.
	ID string
	// Login has User and Password for what is posted.
	Login Secret
}

// KeyState is what a Keys knows about a key.
type KeyState uint8

// The states. KeyUnknown: the sender was asked lately and has no such key. KeyPending: nobody can
// tell now.
const (
	KeyUnknown KeyState = iota
	KeyKnown
	KeyPending
)

// PublicKey is a key with the time in which it counts; a zero time is no bound. It is not changed.
type PublicKey struct {
	Key                 crypto.PublicKey
	NotBefore, NotAfter time.Time
}

// Remotes are the places where keys of the scheme are published.
func (s *Scheme) Remotes() []*Remote {
	var list []*Remote
	for i := range s.AnyOf {
		for j := range s.AnyOf[i].Proofs {
			if remote := s.AnyOf[i].Proofs[j].Key.Remote; remote != nil {
				list = append(list, remote)
			}
		}
	}
	return list
}

// Allows tells whether a URL that a request names may be asked for a key.
func (r *Remote) Allows(text string) bool {
	if len(text) > keyURLMax {
		return false
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.User != nil || u.Fragment != "" || u.RawQuery != "" ||
		u.ForceQuery || u.Opaque != "" || u.RawPath != "" || u.Port() != "" && u.Port() != "443" ||
		u.Path == "" || path.Clean(u.Path) != u.Path {
		return false
	}
	for _, host := range r.Hosts {
		if hostFits(host, strings.ToLower(u.Hostname())) {
			return r.Path == "" || pathFits(r.Path, u.Path)
		}
	}
	return false
}

func hostFits(pattern, host string) bool {
	want, have := strings.Split(pattern, "."), strings.Split(host, ".")
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if want[i] != have[i] && (want[i] != "*" || have[i] == "") {
			return false
		}
	}
	return true
}

func pathFits(pattern, text string) bool {
	before, after, star := strings.Cut(pattern, "*")
	if !star {
		return text == pattern
	}
	return len(text) > len(before)+len(after) && strings.HasPrefix(text, before) &&
		strings.HasSuffix(text, after) &&
		!strings.Contains(text[len(before):len(text)-len(after)], "/")
}

func (r *Remote) check(v *Variant) error {
	named := r.URLFrom.Kind != SourceNone
	switch {
	case r.Form < RemoteJWKS || r.Form > RemoteCertificate:
		return faultAt("form", "is missing, want %s", wordList(remoteWords))
	case named == (r.URL != ""):
		return faultAt("url", "want either url or url_from")
	case named && len(r.Hosts) == 0:
		return faultAt("hosts", "are missing: a stranger could name any server")
	case !named && (len(r.Hosts) > 0 || r.Path != ""):
		return faultAt("hosts", "hosts and path are for url_from")
	case len(r.Hosts) > keyHostsMax:
		return faultAt("hosts", "%d are more than %d", len(r.Hosts), keyHostsMax)
	case strings.Count(r.Path, "*") > 1 || r.Path != "" && r.Path[0] != '/':
		return faultAt("path", "want a path with at most one *")
	case (named || r.Form == RemoteCertificate) && v.KeyID.Kind != SourceNone:
		return faultAt("form", "the URL names the key, so there is no key_id")
	case !named && r.Form != RemoteCertificate && v.KeyID.Kind == SourceNone:
		return faultAt("form", "the request must name its key with key_id")
	case len(r.Post) > 0 && r.Form != RemoteJWK:
		return faultAt("post", "is for form jwk")
	case r.At.Kind != SourceNone && (r.At.Kind != SourceJSON || r.Form != RemoteJWK):
		return faultAt("at", "want json:/POINTER, with form jwk")
	case r.Name != "" && r.Form != RemoteCertificate:
		return faultAt("name", "is for form certificate")
	}
	if named {
		if err := v.checkSource(r.URLFrom); err != nil {
			return under("url_from", err)
		}
		return r.checkHosts()
	}
	u, err := url.Parse(r.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" {
		return faultAt("url", "want an https URL")
	}
	return nil
}

func (r *Remote) checkHosts() error {
	for i, host := range r.Hosts {
		labels := strings.Split(host, ".")
		fixed := 0
		for _, label := range labels {
			if label != "*" {
				fixed++
			}
			if label == "" || label != "*" && strings.ContainsAny(label, "*/:@ ") ||
				label != strings.ToLower(label) {
				return faultAt(fmt.Sprintf("hosts[%d]", i), "%q is no host name in lower case", host)
			}
		}
		if n := len(labels); fixed < 2 || labels[n-1] == "*" || labels[n-2] == "*" {
			return faultAt(fmt.Sprintf("hosts[%d]", i), "%q would fit hosts of strangers", host)
		}
	}
	return nil
}

// remoteKey is the last published key that a Verifier used, in its own form.
type remoteKey struct {
	from  *PublicKey
	proof *Proof
	state keyState
	err   error
}

var errNoKeys = errors.New("is published by the sender, and nobody fetches it here")

// published looks the key up that the request names and holds the signature against it.
func (t *trial) published(p *Proof, signature []byte) bool {
	from, keys := p.Key.Remote, t.v.program.published
	name := KeyName{From: from, URL: from.URL}
	if from.URLFrom.Kind != SourceNone {
		name.URL = string(t.keyID)
	} else {
		name.ID = string(t.keyID)
	}
	for _, login := range t.v.program.logins {
		if login.valid.holds(t.at) {
			name.Login = login.secret
			break
		}
	}
	if keys == nil {
		t.pending = true
		return false
	}
	found, state := keys.Key(name)
	if t.pending = t.pending || state == KeyPending; state != KeyKnown {
		return false
	}
	cached := &t.v.remote
	if cached.from != found || cached.proof != p {
		*cached = remoteKey{from: found, proof: p, state: keyState{key: &key{secret: -1}}}
		bounds := Secret{NotBefore: found.NotBefore, NotAfter: found.NotAfter}
		if cached.state.valid, cached.err = bounds.window(); cached.err == nil {
			cached.err = cached.state.setPublic(p.Algorithm, found.Key)
		}
	}
	if cached.err != nil {
		return false
	}
	if !t.v.proves(p, &cached.state, signature) {
		return false
	}
	if !cached.state.valid.holds(t.at) {
		t.late = true
		return false
	}
	t.matched = &cached.state
	return true
}
