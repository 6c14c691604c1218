package ingest

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
	"sluice/go/internal/lane"
	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
	"sluice/shm-abi/shmabi"
)

// The sources of the rig, by number.
const (
	durably uint32 = 1 + iota // signed, answered when durable, with dedup
	atOnce                    // signed, answered from the ring, with dedup
	asking                    // asks a signed question before it sends
	anybody                   // no proof
	lax                       // signed, not enforced
	waiting                   // signed, answered when its two destinations are through, with dedup
	passing                   // likewise, by what the first of them says
	nobody                    // in no table
)

// The destinations of waiting and passing.
const (
	first uint32 = 1 + iota
	second
)

// received is when all requests of the rig were whole, but for those that say otherwise.
var received = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// The secrets: the senders', a stranger's, and one that no request of a test is signed with.
const (
	secretText   = "whsec_c2VuZGVyc2VuZGVyc2VuZGVyc2VuZGVy"
	strangerText = "whsec_c3RyYW5nZXJzdHJhbmdlcnN0cmFuZ2Vy"
	rotatedText  = "whsec_cm90YXRlZHJvdGF0ZWRyb3RhdGVkcm90"
)

func schemeOf(source uint32) string {
	switch source {
	case asking:
		return "slack"
	case anybody:
		return "none"
	}
	return "standard-webhooks"
}

// source makes one of the rig's sources under a secret.
func source(t testing.TB, id uint32, secret string) *Source {
	t.Helper()
	scheme, ok := catalogue.Lookup(schemeOf(id))
	if !ok {
		t.Fatalf("no profile %s", schemeOf(id))
	}
	var secrets []provider.Secret
	if id != anybody {
		secrets = append(secrets, provider.Secret{Value: secret})
	}
	verifier, err := provider.Compile(scheme, secrets, provider.Options{})
	must(t, err)
	s := &Source{
		ID: id, Name: fmt.Sprint("source-", id), Route: 10 + id, Ack: shmabi.AckDurable,
		Proof: NewProof(Proof{Verifier: verifier}), Unverified: scheme.Unsigned(),
		Enforce: id != lax, Dedup: time.Hour,
	}
	switch id {
	case atOnce:
		s.Ack = shmabi.AckRing
	case waiting, passing:
		s.Ack, s.Destinations, s.Respond = shmabi.AckDelivered, []uint32{first, second}, id == passing
	}
	return s
}

func table(t testing.TB, sources ...*Source) *Table {
	all := &Table{Version: 1, Sources: make(map[uint32]*Source)}
	for id := durably; id < nobody; id++ {
		all.Sources[id] = source(t, id, secretText)
	}
	for _, s := range sources {
		all.Sources[s.ID] = s
	}
	return all
}

// signed is a request that its sender signed; id is the sender's own.
func signed(t testing.TB, from uint32, id string, body string) request {
	return signedWith(t, from, secretText, id, body)
}

func signedWith(t testing.TB, from uint32, secret, id, body string) request {
	t.Helper()
	r := request{source: from, body: []byte(body), received: uint64(received.UnixNano())}
	scheme, ok := catalogue.Lookup(schemeOf(from))
	if !ok {
		t.Fatalf("no profile %s", schemeOf(from))
	}
	fields, err := provider.Sign(scheme, provider.Secret{Value: secret}, &provider.SignRequest{
		Method: "POST", Target: "/hook", Body: r.body, Now: received, ID: id,
	})
	must(t, err)
	for _, f := range fields {
		r.headers = append(r.headers, [2]string{string(f.Name), string(f.Value)})
	}
	return r
}

// forged is the request of a stranger who knows everything but the secret.
func forged(t testing.TB, from uint32, id, body string) request {
	return signedWith(t, from, strangerText, id, body)
}

// question is a handshake.
func question(t testing.TB, challenge string) request {
	return signed(t, asking, "", fmt.Sprintf(
		`{"type":"url_verification","challenge":%q}`, challenge))
}

// rig is a service with its surroundings; restart gives them another one, as a crash would.
type rig struct {
	t       testing.TB
	dir     string
	control *lane.Control
	journal *journal
	table   *Table
	service *Service
	planes  []*plane
	belt    time.Duration // bound on a sleep; out of reach where a test does not say otherwise
	clock   func() time.Duration
	now     atomic.Uint64 // boot clock of the service, ns
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, dir: tmpfs(t), journal: newJournal(t), table: table(t), belt: time.Hour}
	r.now.Store(uint64(time.Hour))
	var err error
	r.control, err = lane.OpenControl(filepath.Join(r.dir, "control"), testOwner.JournalID)
	must(t, err)
	t.Cleanup(r.control.Close)
	t.Cleanup(func() {
		r.journal.release()
		r.stop()
	})
	r.start()
	return r
}

// tmpfs is a temporary folder, on tmpfs where the host has one.
func tmpfs(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "sluice-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// start begins a life of the service and takes up all lanes that there are.
func (r *rig) start() {
	r.t.Helper()
	r.service = New(Options{
		Store: r.journal, Control: r.control, Log: discard,
	}, r.table)
	r.service.committer.spare = true // whatever this machine has
	r.service.belt = r.belt
	r.service.boot = r.now.Load
	if r.clock != nil {
		r.service.clock = r.clock
	}
	r.service.Start()
	for _, p := range r.planes {
		if _, err := os.Stat(p.path); err == nil {
			r.attach(p)
		}
	}
}

// pass lets time pass on the boot clock.
func (r *rig) pass(d time.Duration) {
	r.now.Add(uint64(d))
	signal(r.service.waits.changed)
}

// within gives a request a sender that waits so long.
func (r *rig) within(budget time.Duration, q request) request {
	q.until = r.now.Load() + uint64(budget)
	return q
}

// concluded tells the service of one attempt.
func (r *rig) concluded(id event.ID, to uint32, kind event.OutcomeKind, a *destination.Answer) {
	r.service.Concluded(Conclusion{ID: id, Destination: to, Kind: kind, Answer: a})
}

func (r *rig) attach(p *plane) {
	r.t.Helper()
	l, err := lane.Attach(p.path, testOwner)
	must(r.t, err)
	bells := Bells{}
	if p.mem != nil {
		bells = p.bells()
	}
	must(r.t, r.service.Attach(l, bells, r.journal.reach(p.id)))
}

// stop ends a life where it stands.
func (r *rig) stop() {
	if r.service == nil {
		return
	}
	r.service.Stop()
	r.service = nil
}

func (r *rig) restart() {
	r.t.Helper()
	r.stop()
	r.start()
}

// plane makes a data plane with one lane and takes it into service.
func (r *rig) plane(s size) *plane {
	r.t.Helper()
	p := newPlane(r.t, r.dir, s)
	r.planes = append(r.planes, p)
	r.attach(p)
	return p
}

// roomy is a lane that no test fills by accident.
var roomy = size{1 << 20, 1 << 16}

// verified waits until everything that the plane committed has a verdict.
func (r *rig) verified(p *plane) {
	r.t.Helper()
	eventually(r.t, "all verdicts final", func() bool { return p.verified() == p.commit })
}

// released waits until the plane has all its room back.
func (r *rig) released(p *plane) {
	r.t.Helper()
	eventually(r.t, "all room given back", func() bool { return p.consume() == p.commit })
}

// storedAt tells whether the frame of a position is in the journal.
func (r *rig) storedAt(p *plane, position uint64) bool {
	return slices.ContainsFunc(r.journal.all(), func(s stored) bool {
		return s.lane == p.id && s.position == position
	})
}

// wantOne checks the one answer that a test expects.
func wantOne(t testing.TB, got []answer, kind shmabi.Reply, code uint16, position uint64) answer {
	t.Helper()
	if len(got) != 1 {
		t.Fatalf("%d answers", len(got))
	}
	a := got[0]
	if a.kind != kind || a.code != code || a.position != position {
		t.Fatalf("answer %d %d for %d, want %d %d for %d",
			a.kind, a.code, a.position, kind, code, position)
	}
	return a
}

func idOf(p *plane, position uint64) event.ID {
	return event.NewID(p.id, position, uint64(received.UnixNano()))
}

var discard = slog.New(slog.DiscardHandler)
