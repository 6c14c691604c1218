package ingest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/shm-abi/shmabi"
)

// want is what may become of a request.
type want struct {
	plane    *plane
	position uint64
	source   uint32
	sender   string // the sender's id; empty: none
	until    uint64 // boot clock: its data plane answers 503
	codes    map[uint16]bool
	answer   *answer // the first; of one that waits for a delivery, the only one that counts
}

// world is a rig under random treatment, with what every request may expect.
type world struct {
	*rig
	random  *rand.Rand
	wants   []*want
	at      map[*plane]map[uint64]*want
	seen    map[*plane]int // answers that were looked at
	rotated bool           // the secrets of now are not those of the senders
	dead    map[*plane]bool
	bodyMax int
	reads   int    // how eagerly the data planes read replies
	begun   uint64 // boot clock: the last life of the service
	receivers
}

func seedOf(t *testing.T) uint64 {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		must(t, err)
	}
	t.Logf("SLUICE_SEED=%d", seed)
	return seed
}

func TestEveryFrameHasExactlyOneOutcomeWhateverHappens(t *testing.T) {
	seed := seedOf(t)
	for round := range 8 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			w := &world{
				rig: newRig(t), random: rand.New(rand.NewPCG(seed, uint64(round))),
				at: make(map[*plane]map[uint64]*want), seen: make(map[*plane]int),
				dead: make(map[*plane]bool),
			}
			w.receivers.begin(w)
			w.bodyMax = []int{1, 200, 1500}[round%3]
			w.reads = []int{4, 40}[round%2]
			for range 1 + w.random.IntN(3) {
				w.newPlane()
			}
			for range 500 {
				w.step()
			}
			w.finish()
		})
	}
}

func (w *world) newPlane() {
	sizes := []size{{8192, 4096}, {1 << 16, 4096}, {1 << 16, 1 << 15}}
	p := w.plane(sizes[w.random.IntN(len(sizes))])
	w.at[p] = make(map[uint64]*want)
}

// living picks a data plane that is not dead.
func (w *world) living() *plane {
	for {
		if p := w.planes[w.random.IntN(len(w.planes))]; !w.dead[p] {
			return p
		}
	}
}

func (w *world) step() {
	switch w.random.IntN(60) {
	case 2, 3, 4:
		w.pass(time.Duration(w.random.IntN(int(budgetMax / 4))))
	case 5, 6:
		w.breaker()
	case 0:
		w.service.SetStation(1+w.random.IntN(4), time.Duration(1+w.random.IntN(2000))*time.Microsecond)
	case 1:
		w.service.ClearStation()
	}
	switch n := w.random.IntN(1000); {
	case n < 600:
		for range 1 + w.random.IntN(4) {
			w.send(w.living())
		}
	case n < 700:
		w.attempt()
	case n < 850:
		p := w.living()
		p.drain(1 + w.random.IntN(w.reads))
		w.look(p)
	case n < 890:
		w.journal.hold()
	case n < 950:
		w.journal.release()
	case n < 970:
		w.journal.failNext(1 + w.random.IntN(2))
	case n < 996:
		w.again()
	default:
		p := w.living()
		w.die(p)
		w.newPlane()
	}
}

// send publishes a random request, if it fits.
func (w *world) send(p *plane) {
	id := fmt.Sprint("evt_", w.random.IntN(60))
	body := strings.Repeat("b", w.random.IntN(w.bodyMax))
	x := &want{plane: p, codes: make(map[uint16]bool)}
	var r request
	switch w.random.IntN(12) {
	case 0, 1:
		x.sender, x.codes[200], x.codes[202] = id, true, true
		r = signed(w.t, durably, id, body)
	case 2, 3:
		x.sender, x.codes[200] = id, true
		r = signed(w.t, atOnce, id, body)
	case 4:
		x.codes[401] = true
		r = forged(w.t, durably, id, body)
	case 5:
		x.codes[404] = true
		r = request{source: nobody, body: []byte(body), received: uint64(received.UnixNano())}
	case 6:
		x.codes[200] = true
		r = question(w.t, body[:min(len(body), 600)])
	case 7:
		x.codes[200] = true
		r = forged(w.t, lax, id, body)
	case 8, 9, 10, 11:
		x.sender, x.codes[200], x.codes[202] = id, true, true
		from := waiting
		if w.random.IntN(2) == 0 {
			from = passing
			x.codes[refusedStatus] = true
		}
		r = w.within(time.Duration(w.random.IntN(int(budgetMax))), signed(w.t, from, id, body))
	}
	x.source, x.until = r.source, r.until
	f, fits := p.frame(r)
	if !fits {
		return
	}
	if w.rotated && x.source != lax && x.source != nobody {
		x.codes[401] = true
	}
	x.position = p.write(f)
	w.wants, w.at[p][x.position] = append(w.wants, x), x
	p.show()
}

// again is another life, perhaps with other secrets.
func (w *world) again() {
	w.journal.release()
	w.delivers.Store(false)
	w.stop()
	w.journal.reopen()
	if w.random.IntN(2) == 0 {
		w.rotated = !w.rotated
		w.useTable()
		for _, x := range w.wants { // those without a verdict may be judged by either table
			if x.position >= w.verifiedOf(x.plane) && w.rotated && x.source != lax &&
				x.source != nobody {
				x.codes[401] = true
			}
			if !w.rotated && x.position >= w.verifiedOf(x.plane) && x.sender != "" {
				x.codes[200] = true
			}
		}
	}
	w.begun = w.now.Load()
	w.start()
	w.service.Resume(w.pending())
	w.delivers.Store(true)
}

// useTable makes the table of the secrets of now.
func (w *world) useTable() {
	w.table = table(w.t)
	if w.rotated {
		for _, id := range []uint32{durably, atOnce, asking, waiting, passing} {
			w.table.Sources[id] = source(w.t, id, rotatedText)
		}
	}
	for _, id := range []uint32{durably, waiting, passing} {
		w.table.Sources[id].Degraded = w.open.Load
	}
}

func (w *world) verifiedOf(p *plane) uint64 {
	if w.dead[p] {
		return 0 // unknown: nothing is asserted too strictly
	}
	return p.verified()
}

func (w *world) die(p *plane) {
	w.look(p)
	w.dead[p] = true
	w.kill(p)
}

// look holds new answers against the rules.
func (w *world) look(p *plane) {
	w.t.Helper()
	for ; w.seen[p] < len(p.answers); w.seen[p]++ {
		a := p.answers[w.seen[p]]
		x := w.at[p][a.position]
		switch {
		case x == nil:
			w.t.Fatalf("an answer for %d, where no frame begins", a.position)
		case a.token>>20 != uint64(a.seq):
			w.t.Fatalf("token %d with request %d", a.token>>20, a.seq)
		case x.waits() && x.answer != nil:
			// The data plane drops it; it must be as true as the first.
		case x.answer != nil && (x.answer.kind != a.kind || x.answer.code != a.code ||
			x.answer.id != a.id ||
			x.answer.body != a.body && x.answer.body != "" && a.body != ""):
			// A handshake's body is empty where another life has not the secret any more.
			w.t.Fatalf("the frame at %d was told %v, then %v", a.position, *x.answer, a)
		case !x.codes[a.code]:
			w.t.Fatalf("the frame at %d of source %d was told %d", a.position, x.source, a.code)
		case x.accepted(a) && x.source != atOnce && !w.storedAt(p, a.position):
			w.t.Fatalf("the frame at %d was told durable and is not", a.position)
		}
		if x.waits() {
			w.check(x, a)
		}
		if x.answer == nil || !x.waits() {
			x.answer = &a
		}
	}
	if consume := p.consume(); consume > 0 {
		for at, x := range w.at[p] {
			if at < consume && x.answer != nil && x.accepted(*x.answer) &&
				!w.storedAt(p, at) {
				w.t.Fatalf("the room of the frame at %d was given back before it was stored", at)
			}
		}
	}
}

// finish lets everything come to its end and counts.
func (w *world) finish() {
	w.t.Helper()
	w.journal.release()
	w.journal.failNext(0)
	w.service.ClearStation()
	for _, p := range w.planes {
		if w.dead[p] {
			w.ended(p)
			continue
		}
		eventually(w.t, "all room given back", func() bool {
			p.drain(1 << 20)
			return p.consume() == p.commit
		})
		p.drain(1 << 20)
		w.look(p)
		w.pass(2 * budgetMax) // no destination held the room; no sender waits for one for ever
		eventually(w.t, "all waits over", func() bool {
			p.drain(1 << 20)
			return w.service.Waiting() == 0
		})
		w.drained(p)
		w.look(p)
		for at, x := range w.at[p] {
			if late := x.waits() && x.until <= w.begun; x.answer == nil && !late {
				w.t.Errorf("the frame at %d of source %d has no answer", at, x.source)
			}
		}
		p.close()
		w.die(p)
		w.ended(p)
		if exists(p.path) {
			w.t.Errorf("lane %x was not removed", p.id)
		}
	}
	type place struct {
		lane     event.LaneID
		position uint64
	}
	copies := make(map[place]int)
	firsts := make(map[event.ID]bool)
	for _, s := range w.journal.all() {
		copies[place{s.lane, s.position}]++
		firsts[s.id] = true
		if s.id != event.NewID(s.lane, s.position, s.frame.D().ReceivedNS()) {
			w.t.Errorf("the frame at %d has the id %s", s.position, s.id)
		}
	}
	counts := make(map[string]int)
	for _, x := range w.wants {
		stored := copies[place{x.plane.id, x.position}]
		delete(copies, place{x.plane.id, x.position})
		if stored > 1 || stored == 1 && !x.codes[200] {
			w.t.Errorf("the frame at %d is stored %d times", x.position, stored)
		}
		if x.answer == nil {
			counts["orphans"]++
			continue
		}
		counts[fmt.Sprintf("kind %d code %d", x.answer.kind, x.answer.code)]++
		accepted := x.accepted(*x.answer)
		repeats := x.answer.kind == shmabi.ReplyDuplicate || x.answer.kind == shmabi.ReplyQueued
		if x.waits() && repeats && x.answer.id != x.name() {
			accepted = stored == 1 // the applier found it, or intake did
		}
		if accepted != (stored == 1) {
			w.t.Errorf("the frame at %d was told %v and is stored %d times",
				x.position, *x.answer, stored)
		}
		if repeats && !firsts[x.answer.id] {
			w.t.Errorf("duplicate of %s, which is not stored", x.answer.id)
		}
	}
	for at, n := range copies {
		w.t.Errorf("stored %d times without a request: %v", n, at)
	}
	w.kept(0)
	w.t.Logf("%d requests: %v", len(w.wants), counts)
}
