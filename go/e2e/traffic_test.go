package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	pb "sluice/proto/sluice/v1"
)

// promise is what became of one delivery on the sender's side.
type promise struct {
	source string
	body   string
	tries  int
	forged bool
	code   int    // the last answer's; 0: none came
	id     string // the event of the 2xx
}

// traffic is senders that keep a ledger of what they were told. As real ones do, they send a
// delivery again when no answer came or it was a 503.
type traffic struct {
	i       *installation
	sources []string
	prefix  string
	halt    chan struct{}
	senders sync.WaitGroup

	mu     sync.Mutex
	ledger map[string]*promise // by delivery id
	faults []string            // answers that no sender may ever see
	begun  int

	// nameless: the source is gone, and with it the way to find the sender's id of an event.
	nameless bool
}

// begin starts so many senders for each source.
func begin(i *installation, random *rand.Rand, each int, sources ...string) *traffic {
	f := &traffic{
		i: i, sources: sources, prefix: fmt.Sprintf("%08x", random.Uint32()),
		halt: make(chan struct{}), ledger: map[string]*promise{},
	}
	for _, source := range sources {
		for range each {
			own := rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
			f.senders.Go(func() { f.send(source, own) })
		}
	}
	return f
}

// end stops the senders; a delivery without an answer stays without one.
func (f *traffic) end() {
	close(f.halt)
	f.senders.Wait()
}

func (f *traffic) halted() bool {
	select {
	case <-f.halt:
		return true
	default:
		return false
	}
}

// acknowledged counts the deliveries that were promised.
func (f *traffic) acknowledged() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, p := range f.ledger {
		if p.code == 200 {
			n++
		}
	}
	return n
}

func (f *traffic) send(source string, random *rand.Rand) {
	var w *wire
	for !f.halted() {
		f.mu.Lock()
		f.begun++
		delivery := fmt.Sprintf("%s-%s-%06d", f.prefix, source, f.begun)
		p := &promise{
			source: source, forged: random.IntN(10) == 0,
			body: fmt.Sprintf(`{"delivery":%q,"pad":%q}`, delivery,
				strings.Repeat("x", random.IntN(1500))),
		}
		f.ledger[delivery] = p
		f.mu.Unlock()
		r := github("/hooks/"+source, delivery, p.body)
		if p.forged {
			r.fields[3].value = "sha256=" + hmacHex("another secret", p.body)
		}
		for !f.halted() {
			var done bool
			if w, done = f.try(w, r, p); done {
				break
			}
			time.Sleep(time.Duration(1+random.IntN(5)) * time.Millisecond) // a sender's backoff
		}
	}
	if w != nil {
		_ = w.conn.Close()
	}
}

// try sends a delivery once; true: it need not be sent again.
func (f *traffic) try(w *wire, r request, p *promise) (*wire, bool) {
	if w == nil {
		var err error
		if w, err = connect(f.i.address); err != nil {
			return nil, false // nobody listens
		}
	}
	a, err := w.exchange(r)
	f.mu.Lock()
	defer f.mu.Unlock()
	p.tries++
	if err != nil {
		if !errors.Is(err, errSlow) {
			_ = w.conn.Close()
			return nil, false
		}
		f.faults = append(f.faults, fmt.Sprintf("no answer to %s: %v", p.body[:40], err))
		_ = w.conn.Close()
		return nil, true
	}
	p.code, p.id = a.code, a.get("X-Event-Id")
	if a.closes() {
		_ = w.conn.Close()
		w = nil
	}
	switch {
	case a.code == 503:
		return w, false
	case a.code == 200 && !p.forged, a.code == 401 && p.forged:
	default:
		f.faults = append(f.faults, fmt.Sprintf("forged %v: %v", p.forged, a))
	}
	return w, true
}

// holds checks every promise against what is stored and against what the destination got. The
// daemon runs and nobody sends.
func (f *traffic) holds(t testing.TB, to *sink) {
	t.Helper()
	f.i.awaitDelivered()
	listed := f.kept(t)
	f.delivered(t, to, listed)
}

// kept checks every promise against what is stored, which it gives by delivery id.
func (f *traffic) kept(t testing.TB) map[string][]*pb.Event {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, fault := range f.faults {
		t.Error(fault)
	}
	listed, named := map[string][]*pb.Event{}, map[string]string{}
	for _, e := range f.i.events(nil) {
		named[e.GetId()] = e.GetProviderId()
		listed[e.GetProviderId()] = append(listed[e.GetProviderId()], e)
	}
	lost, twice, refused := 0, 0, 0
	for delivery, p := range f.ledger {
		events := listed[delivery]
		switch {
		case len(events) > 1:
			twice++
			t.Logf("listed %d times: %s", len(events), delivery)
		case p.forged && len(events) > 0:
			refused++
		case p.code != 200 || p.forged || f.found(p, delivery, len(events), named):
		default:
			lost++
			t.Logf("lost: %s, acknowledged as %s after %d tries", delivery, p.id, p.tries)
		}
	}
	if lost+twice+refused > 0 {
		t.Errorf("of %d deliveries: %d lost or under another id than told, %d stored twice, "+
			"%d stored although refused", len(f.ledger), lost, twice, refused)
	}
	return listed
}

// found tells whether an acknowledged delivery is stored. A delivery that was sent more than once
// may be stored as the event of an earlier try.
func (f *traffic) found(p *promise, delivery string, events int, named map[string]string) bool {
	if p.tries > 1 {
		return events == 1
	}
	name, stored := named[p.id]
	return stored && (name == delivery || f.nameless && name == "")
}

// delivered checks that each stored event of this traffic reached the destination, always under its
// own key and with its own body.
func (f *traffic) delivered(t testing.TB, to *sink, listed map[string][]*pb.Event) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	reached := map[string]bool{}
	for _, d := range to.all() {
		delivery, _ := value(d.fields, "X-GitHub-Delivery")
		p := f.ledger[delivery]
		if p == nil {
			continue // of other traffic
		}
		reached[delivery] = true
		if events := listed[delivery]; len(events) != 1 || events[0].GetId() != d.key {
			t.Errorf("%s was delivered under key %s, which is not its event's", delivery, d.key)
		}
		if d.body != p.body {
			t.Errorf("%s was delivered with another body", delivery)
		}
	}
	for delivery := range listed {
		if f.ledger[delivery] != nil && !reached[delivery] {
			t.Errorf("%s is stored and was not delivered", delivery)
		}
	}
}
