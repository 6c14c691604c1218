package ingest

import (
	"fmt"
	"testing"
	"time"

	"sluice/shm-abi/shmabi"
)

// narrow has a reply ring of 64 answers.
var narrow = size{1 << 16, 4096}

func TestRepliesWaitForRoomAndGoOnWhenTheDataPlaneDrains(t *testing.T) {
	r := newRig(t)
	p := r.plane(narrow)
	const frames = 130
	for i := range frames {
		p.publish(signed(t, atOnce, fmt.Sprint(i), "{}"))
	}
	r.verified(p)
	eventually(t, "a full reply ring", func() bool {
		return p.load(shmabi.LaneHeaderReplyCommitOffset)-p.replied == 4096
	})
	// The rest is stored meanwhile, and keeps its room until it is answered.
	eventually(t, "all stored", func() bool { return len(r.journal.all()) == frames })
	if first := p.answers; len(first) != 0 {
		t.Fatalf("%d answers drained", len(first))
	}
	answers := p.take(frames)
	for i := 1; i < frames; i++ {
		if answers[i].position <= answers[i-1].position {
			t.Fatalf("answer %d is for %d, the one before for %d", i,
				answers[i].position, answers[i-1].position)
		}
	}
	r.released(p)
}

// The committer finds the ring full while the lane's own goroutine sleeps without having asked to
// be told of room.
func TestRoomIsAskedForByALaneThatSleeps(t *testing.T) {
	r := newRig(t)
	p := r.plane(narrow)
	r.journal.hold()
	const frames = 70
	for i := range frames {
		p.publish(signed(t, durably, fmt.Sprint(i), "{}"))
	}
	r.journal.inAppend()
	r.verified(p)
	eventually(t, "the lane asleep", func() bool {
		ticket := p.load(shmabi.LaneHeaderCPTicketOffset)
		return ticket&3 == 1
	})
	r.journal.release()
	eventually(t, "asleep with the wish for room", func() bool {
		return p.load(shmabi.LaneHeaderCPTicketOffset)&3 == 3
	})
	p.take(frames)
	r.released(p)
}

func TestBothRingsFullDrains(t *testing.T) {
	r := newRig(t)
	p := r.plane(size{8192, 4096})
	total := 0
	for round := range 40 {
		for i := 0; ; i++ { // fill the lane without reading a reply
			from := nobody
			if i%3 == 0 {
				from = anybody
			}
			f, fits := p.frame(request{source: from, body: []byte("{}")})
			if !fits {
				break
			}
			p.write(f)
			p.show()
			total++
		}
		if round%2 == 0 {
			eventually(t, "rings full", func() bool {
				return p.load(shmabi.LaneHeaderReplyCommitOffset)-p.replied == 4096 ||
					p.consume() == p.commit
			})
		}
		p.drain(7)
	}
	p.take(total - len(p.answers))
	r.released(p)
	seen := make(map[uint64]bool)
	for _, a := range p.answers {
		if seen[a.token] {
			t.Fatalf("request %d was answered twice", a.token>>20)
		}
		seen[a.token] = true
	}
}

func TestConsumeNeverPassesWhatIsDurableAndReplied(t *testing.T) {
	r := newRig(t)
	p := r.plane(narrow)
	r.journal.hold()
	fillReplies(t, r, p)
	unanswered := p.publish(signed(t, atOnce, "a", "{}"))
	waiting := p.publish(signed(t, durably, "b", "{}"))
	r.verified(p)
	r.journal.inAppend()
	// Durable, not replied.
	r.journal.release()
	eventually(t, "both stored", func() bool { return len(r.journal.all()) == 2 })
	eventually(t, "the wish for room", func() bool {
		return p.load(shmabi.LaneHeaderCPTicketOffset)&3 == 3
	})
	if p.consume() != unanswered {
		t.Fatalf("consume %d passes the unanswered frame at %d", p.consume(), unanswered)
	}
	p.drain(1)
	eventually(t, "the first answer's room", func() bool { return p.consume() == waiting })
	// Replied, not durable.
	p.take(65)
	r.released(p)
	r.journal.hold()
	ring := p.publish(signed(t, atOnce, "c", "{}"))
	r.journal.inAppend()
	wantOne(t, p.take(1), shmabi.ReplyAccepted, 200, ring)
	if p.consume() != ring {
		t.Fatalf("consume %d passes the frame at %d, which is not durable", p.consume(), ring)
	}
	r.journal.release()
	r.released(p)
}

func TestAReplyNeedsAFinalVerdictFirst(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	stop := make(chan struct{})
	checked := make(chan error, 1)
	go func() { // a witness with a mapping of its own
		for {
			// Load in this order: a reply that is visible now had its verdict before.
			replies := p.load(shmabi.LaneHeaderReplyCommitOffset)
			verified := p.verified()
			if positions := replies / shmabi.ReplyEntrySize * frameSize; positions > verified {
				checked <- fmt.Errorf("%d bytes of replies where verified is %d", replies, verified)
				return
			}
			select {
			case <-stop:
				checked <- nil
				return
			default:
			}
		}
	}()
	for range 500 {
		f, _ := p.frame(request{source: nobody})
		if len(f) != frameSize {
			t.Fatalf("a frame of %d bytes", len(f))
		}
		p.write(f)
		p.show()
	}
	p.take(500)
	close(stop)
	if err := <-checked; err != nil {
		t.Error(err)
	}
}

// frameSize is a request without headers and body: two lines, the payload's head and the target.
const frameSize = 256

func TestRepliesRingASleepingDataPlaneOnce(t *testing.T) {
	r := newRig(t)
	p := r.plane(roomy)
	waits := func() bool {
		t.Helper()
		rung, err := p.peer.Wait(time.Millisecond)
		must(t, err)
		return rung
	}
	eventually(t, "the ring at the start", waits)
	p.publish(request{source: nobody})
	p.take(1)
	r.released(p)
	if waits() {
		t.Error("a data plane that is awake was rung")
	}
	p.store(shmabi.LaneHeaderDPTicketOffset, 9) // asleep
	p.publish(request{source: nobody})
	p.take(1)
	eventually(t, "the ring for a reply", waits)
	p.publish(request{source: nobody})
	p.take(1)
	r.released(p)
	if waits() {
		t.Error("rung twice for one sleep")
	}
	p.store(shmabi.LaneHeaderDPTicketOffset, 13+2) // asleep, and the lane is full
	p.publish(signed(t, atOnce, "evt_1", "{}"))
	p.take(1)
	eventually(t, "the ring for room", waits)
}
