package keyring

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
)

// scheme is one whose secret comes in a handshake.
const scheme = `
signature: header:X-Signature
algorithm: hmac-sha256
encoding: hex
content: [body]
handshakes:
  - name: secret
    match: [{from: header:X-Secret}]
    status: 200
    store: {role: hook, from: header:X-Secret}
`

// proof is what stands where requests are judged.
type proof struct {
	verifier *provider.Verifier
	proved   func(int, int64)
}

// rig is a ring with sources, and a clock.
type rig struct {
	t      *testing.T
	folder string
	ring   *Ring
	log    *logged
	clock  atomic.Int64 // ns since 1970
	proofs map[string]*atomic.Pointer[proof]
}

// logged is a log that may be written to while it is read.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func newRig(t *testing.T, keys ...[]byte) *rig {
	r := &rig{t: t, folder: t.TempDir(), log: &logged{}, proofs: map[string]*atomic.Pointer[proof]{}}
	r.clock.Store(time.Now().UnixNano())
	r.reopen(keys...)
	return r
}

func (r *rig) now() time.Time          { return time.Unix(0, r.clock.Load()) }
func (r *rig) pass(span time.Duration) { r.clock.Add(int64(span)) }
func (r *rig) secrets() string         { return filepath.Join(r.folder, "secrets") }
func (r *rig) store() *Store           { return r.ring.store }

// reopen is another life.
func (r *rig) reopen(keys ...[]byte) {
	r.t.Helper()
	store, err := NewStore(r.secrets(), keys)
	if err != nil {
		r.t.Fatal(err)
	}
	r.ring = Open(Options{Store: store, Now: r.now,
		Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
}

// wanted is a source with number 7 and the name hooks.
func (r *rig) wanted(secrets ...Secret) Wanted {
	return r.named("hooks", 7, secrets...)
}

func (r *rig) named(name string, id uint32, secrets ...Secret) Wanted {
	r.t.Helper()
	parsed, err := catalogue.Parse([]byte(scheme))
	if err != nil {
		r.t.Fatal(err)
	}
	place := &atomic.Pointer[proof]{}
	r.proofs[name] = place
	return Wanted{
		ID: id, Name: name, Secrets: secrets, Learns: true,
		Compile: func(secrets []provider.Secret, proved func(int, int64)) (func(), error) {
			verifier, err := provider.Compile(parsed, secrets, provider.Options{Learn: true})
			return func() { place.Store(&proof{verifier, proved}) }, err
		},
	}
}

// file is a secret in a file.
func (r *rig) file(name, text string) Secret {
	r.t.Helper()
	path := filepath.Join(r.folder, name)
	r.write(path, text)
	return Secret{
		Origin: "file:" + path, Files: []string{path},
		Read: func([]byte) ([]byte, error) { return os.ReadFile(path) },
	}
}

func (r *rig) write(path, text string) {
	r.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// literal is a secret that never changes.
func literal(text string) Secret {
	return Secret{Origin: "env:" + strings.ToUpper(text[:1]),
		Read: func([]byte) ([]byte, error) { return []byte(text), nil }}
}

// use puts sources in force.
func (r *rig) use(wanted ...Wanted) {
	r.t.Helper()
	set, err := r.ring.Prepare(context.Background(), wanted, true)
	if err != nil {
		r.t.Fatal(err)
	}
	r.ring.Use(set)
}

// proves tells whether a request signed with the secret is proven now, and counts it.
func (r *rig) proves(secret string) bool { return r.provesFor("hooks", secret) }

func (r *rig) provesFor(name, secret string) bool {
	const body = "{}"
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(body))
	p := r.proofs[name].Load()
	if p == nil {
		r.t.Fatal("nothing is in force")
	}
	request := provider.Request{
		Method: []byte("POST"), Body: []byte(body), ReceivedNS: r.clock.Load(),
		Headers: []provider.Field{{Name: []byte("X-Signature"),
			Value: []byte(hex.EncodeToString(mac.Sum(nil)))}},
	}
	verdict := p.verifier.Clone().Verify(&request)
	if verdict.Outcome == provider.OK {
		p.proved(verdict.Secret, request.ReceivedNS)
	}
	return verdict.Outcome == provider.OK
}

// holds checks what is proven now.
func (r *rig) holds(proven, refused string) {
	r.t.Helper()
	for _, secret := range strings.Fields(proven) {
		if !r.proves(secret) {
			r.t.Errorf("%s proves nothing", secret)
		}
	}
	for _, secret := range strings.Fields(refused) {
		if r.proves(secret) {
			r.t.Errorf("%s proves", secret)
		}
	}
}

// looks is so many looks of Run.
func (r *rig) looks(n int) {
	for range n {
		r.ring.look(context.Background())
	}
}

// problem wants one problem with a word in it; "" wants none.
func (r *rig) problem(word string) {
	r.t.Helper()
	all := strings.Join(r.ring.Problems(), "\n")
	if word == "" && all != "" || !strings.Contains(all, word) {
		r.t.Errorf("want a problem with %q, found %q", word, all)
	}
}

// silent holds that nobody was told a secret.
func (r *rig) silent(secrets ...string) {
	r.t.Helper()
	all := r.log.String() + strings.Join(r.ring.Problems(), "\n")
	for _, secret := range secrets {
		if at := strings.Index(all, secret); at >= 0 {
			r.t.Errorf("a secret was told: …%s", all[max(0, at-80):at+len(secret)])
		}
	}
}
