package main

import (
	"bytes"
	"crypto/hmac"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"slices"
	"strings"
	"time"

	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
)

// contest is one provider: how a request of it is made, and who judges it.
type contest struct {
	provider string // its profile's name
	family   string
	sign     provider.Secret // the sender's
	verify   provider.Secret // the receiver's; the same where the secret is shared
	body     func(size int) []byte

	// library gives a verdict of the library of module (whose it is says owner) over d. Its header,
	// URL and body are there as net/http would have them. Nil: there is none for Go.
	library       func(d *delivery) judge
	module, owner string

	// The bare primitive, over text and signature as they are, with its own state kept.
	text      func(d *delivery) []byte
	signature position
	primitive func(text, signature []byte) judge
}

// judge says whether a request is proved. It may be asked again and again.
type judge func() bool

// judges are all over the same request; library is nil where there is none. The verdict of ours has
// the id and the type of the event and knows handshakes; the proof alone is what libraries give.
type judges struct{ proof, verdict, library, primitive judge }

// delivery is one signed request, in the forms in which the judges take it.
type delivery struct {
	url, time, id string
	header        http.Header
	fields        []provider.Field
	body          []byte
}

const (
	publicURL = "https://hooks.example.test/in"
	messageID = "msg_2LPbLIYBnNRqHnBx0AT3hGbXKFf"
)

// usualFields come along with every webhook and are no part of its proof.
var usualFields = [][2]string{
	{"Host", "hooks.example.test"}, {"User-Agent", "hook/1.0"}, {"Accept", "*/*"},
	{"Accept-Encoding", "gzip"}, {"Content-Type", "application/json"}, {"Content-Length", "1024"},
	{"X-Request-Id", "72d3162e-cc78-11e3-81ab-4c9367dc0958"}, {"X-Forwarded-For", "192.0.2.1"},
}

// deliver makes a request of a body of size bytes as the provider would send it at now.
func (c *contest) deliver(size int, now time.Time) (*delivery, error) {
	scheme, found := catalogue.Lookup(c.provider)
	if !found {
		return nil, errors.New("there is no such profile")
	}
	made := provider.SignRequest{
		Method: http.MethodPost, Target: "/in", URL: publicURL, Body: c.body(size), Now: now,
		ID: messageID, Type: "made",
	}
	signed, err := provider.Sign(scheme, c.sign, &made)
	if err != nil {
		return nil, err
	}
	d := &delivery{
		url: made.URL, time: fmt.Sprint(now.Unix()), id: messageID, header: http.Header{},
		body: made.Body,
	}
	for _, pair := range usualFields {
		if !slices.ContainsFunc(signed, func(f provider.Field) bool {
			return strings.EqualFold(string(f.Name), pair[0])
		}) {
			d.fields = append(d.fields, provider.Field{Name: []byte(pair[0]), Value: []byte(pair[1])})
		}
	}
	d.fields = append(d.fields, signed...)
	for _, f := range d.fields {
		d.header.Add(string(f.Name), string(f.Value))
	}
	return d, nil
}

// judges has all of them judge d as received at now; the library looks at the clock instead.
func (c *contest) judges(d *delivery, now time.Time) (j judges, err error) {
	scheme, found := catalogue.Lookup(c.provider)
	if !found {
		return j, errors.New("there is no such profile")
	}
	if j.verdict, err = c.ours(scheme, d, now); err != nil {
		return j, err
	}
	if j.proof, err = c.ours(proofOnly(scheme), d, now); err != nil {
		return j, err
	}
	if c.library != nil {
		j.library = c.library(d)
	}
	signature, err := c.signature.of(d.header)
	if err != nil {
		return j, err
	}
	j.primitive = c.primitive(c.text(d), signature)
	return j, nil
}

func (c *contest) ours(s *provider.Scheme, d *delivery, now time.Time) (judge, error) {
	verifier, err := provider.Compile(s, []provider.Secret{c.verify}, provider.Options{})
	if err != nil {
		return nil, err
	}
	r := &provider.Request{
		Method: []byte(http.MethodPost), Target: []byte("/in"), URL: []byte(d.url), Body: d.body,
		Headers: d.fields, ReceivedNS: now.UnixNano(),
	}
	return func() bool { return verifier.Verify(r).Outcome == provider.OK }, nil
}

// proofOnly is the scheme without all that is looked up in a request once it is proved.
func proofOnly(s *provider.Scheme) *provider.Scheme {
	bare := *s
	bare.ID, bare.Type, bare.Handshakes, bare.Batch = nil, nil, nil, nil
	bare.AnyOf = slices.Clone(s.AnyOf)
	for i := range bare.AnyOf {
		bare.AnyOf[i].ID = nil
	}
	return &bare
}

// position is where the signature is and how it is written there.
type position struct {
	header, behind string // behind is what is written in front of it
	decode         func(string) ([]byte, error)
}

func (p position) of(header http.Header) ([]byte, error) {
	value := header.Get(p.header)
	_, text, found := strings.Cut(value, p.behind)
	if !found {
		return nil, fmt.Errorf("the header %s has no %q", p.header, p.behind)
	}
	return p.decode(text)
}

func inHex(header, behind string) position { return position{header, behind, hex.DecodeString} }

func inBase64(header, behind string) position {
	return position{header, behind, base64.StdEncoding.DecodeString}
}

func asWritten(header string) position {
	return position{header, "", func(text string) ([]byte, error) { return []byte(text), nil }}
}

// mac is an HMAC whose keyed state is made once, which is the least that a verdict can cost.
func mac(of func() hash.Hash, key string) func(text, signature []byte) judge {
	return func(text, signature []byte) judge {
		keyed, sum := hmac.New(of, []byte(key)), make([]byte, 0, 64)
		return func() bool {
			keyed.Reset()
			keyed.Write(text)
			return subtle.ConstantTimeCompare(keyed.Sum(sum[:0]), signature) == 1
		}
	}
}

// jsonBody makes events of many small members between the front and the back that are the sender's.
func jsonBody(front, back string) func(size int) []byte {
	return func(size int) []byte {
		const item = `{"id":1234,"name":"a name","paid":true},`
		body := []byte(front + `"data":[`)
		back := `"]` + back
		for len(body)+len(item)+len(`"`)+len(back) <= size {
			body = append(body, item...)
		}
		body = append(body, '"')
		body = append(body, bytes.Repeat([]byte("x"), size-len(body)-len(back))...)
		return append(body, back...)
	}
}

// formBody is a form of twenty parameters as a text message's, each value with an escape.
func formBody(size int) []byte {
	var body []byte
	const count = 20
	for i := range count {
		body = fmt.Appendf(body, "Param%02d=%%2B", i)
		length := size * (i + 1) / count
		body = append(body, bytes.Repeat([]byte("x"), length-len(body)-1)...)
		body = append(body, '&')
	}
	return append(body[:len(body)-1], 'x')
}
