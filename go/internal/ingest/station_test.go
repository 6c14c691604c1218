package ingest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"sluice/shm-abi/shmabi"
)

// servers is the station told plainly: whoever comes takes the server that is free first.
type servers struct {
	each time.Duration
	busy []time.Duration
}

func (s *servers) enter(now time.Duration) time.Duration {
	slices.Sort(s.busy)
	s.busy[0] = max(now, s.busy[0]) + s.each
	return s.busy[0]
}

func TestAStationServesAsItsServersWould(t *testing.T) {
	random := rand.New(rand.NewPCG(seedOf(t), 1))
	for round := range 50 {
		plain := &servers{}
		station := &station{}
		resize := func(count int, each time.Duration) {
			slices.Sort(plain.busy)
			slices.Reverse(plain.busy)
			plain.busy = append(plain.busy, make([]time.Duration, max(0, count-len(plain.busy)))...)
			plain.busy, plain.each = plain.busy[:count], each
			station.resize(count, each)
		}
		resize(1+random.IntN(16), time.Duration(1+random.IntN(1000)))
		now, frames := time.Duration(0), uint64(0)
		for range 500 {
			if random.IntN(100) == 0 {
				resize(1+random.IntN(16), time.Duration(1+random.IntN(1000)))
			}
			now += time.Duration(random.IntN(300))
			frames++
			if got, want := station.enter(now), plain.enter(now); got != want || got <= now {
				t.Fatalf("round %d: one that came at %d leaves at %d, want %d", round, now, got, want)
			}
		}
		if station.entered != frames {
			t.Errorf("%d entered, want %d", station.entered, frames)
		}
	}
}

// slow is a rig whose station goes by a clock of the test's.
type slow struct {
	*rig
	now atomic.Int64
}

func newSlow(t testing.TB) *slow {
	s := &slow{rig: newRig(t)}
	s.stop()
	s.clock = func() time.Duration { return time.Duration(s.now.Load()) }
	s.now.Store(int64(time.Hour))
	s.start()
	return s
}

// pass lets time pass and waits until the committer has acted on it: it takes the second nudge only
// when it is done with what it found at the first.
func (s *slow) pass(d time.Duration) {
	s.t.Helper()
	s.now.Add(int64(d))
	for range 2 {
		s.service.nudge()
		eventually(s.t, "the committer looks", func() bool { return len(s.service.work) == 0 })
	}
}

// settled waits until so many frames are stored, and never more.
func (s *slow) settled(want int) {
	s.t.Helper()
	eventually(s.t, fmt.Sprint(want, " frames stored"), func() bool {
		if n := len(s.journal.all()); n > want {
			s.t.Fatalf("%d frames are stored, want %d", n, want)
		}
		return len(s.journal.all()) == want
	})
}

func TestAStationLetsExactlyItsCapacityThrough(t *testing.T) {
	const count, each, offered = 4, 10 * time.Millisecond, 60
	s := newSlow(t)
	s.service.SetStation(count, each)
	one, two := s.plane(roomy), s.plane(roomy)
	for i := range offered / 2 {
		one.publish(signed(t, durably, fmt.Sprint("d", i), "{}"))
		one.publish(forged(t, durably, fmt.Sprint("f", i), "{}")) // is not stored, so it passes none
		two.publish(signed(t, atOnce, fmt.Sprint("r", i), "{}"))
	}
	s.verified(one)
	s.verified(two)
	if got := s.service.StationEntered(); got != offered {
		t.Errorf("%d frames entered, want %d", got, offered)
	}
	two.take(offered / 2) // `ring` is answered at once
	for passed := time.Duration(0); passed < 16*each; passed += each / 2 {
		s.settled(min(offered, count*int(passed/each)))
		s.pass(each / 2)
	}
	one.take(offered)
	s.released(one)
	s.released(two)
	if got := s.service.BeltWakes(); got != 0 {
		t.Errorf("%d wakes by the belt", got)
	}
}

func TestAStationSetAnewKeepsWhatIsInsideAndOneClearedLetsItGo(t *testing.T) {
	s := newSlow(t)
	p := s.plane(roomy)
	publish := func(n int) {
		for range n {
			p.publish(signed(t, atOnce, fmt.Sprint(p.commit), "{}"))
		}
		s.verified(p)
	}
	s.service.SetStation(2, 10*time.Millisecond)
	publish(2)                                   // until 10 ms
	s.service.SetStation(1, 40*time.Millisecond) // until 10 ms, then this long each
	publish(2)                                   // until 50 and 90 ms
	for _, step := range []struct{ pass, want int }{{9, 0}, {1, 2}, {39, 2}, {1, 3}, {39, 3}, {1, 4}} {
		s.pass(time.Duration(step.pass) * time.Millisecond)
		s.settled(step.want)
	}
	publish(3)
	s.settled(4)
	s.service.ClearStation()
	s.settled(7)
	publish(1)
	s.settled(8)
	if got := s.service.StationEntered(); got != 0 {
		t.Errorf("%d entered a station that is not there", got)
	}
}

func TestAFrameInTheStationHoldsBackNothingButItsLane(t *testing.T) {
	s := newSlow(t)
	slow, quick := s.plane(roomy), s.plane(roomy)
	s.service.SetStation(1, time.Minute)
	at := slow.publish(signed(t, durably, "a", "{}"))
	s.verified(slow)
	s.service.SetStation(2, time.Millisecond) // there is a free server
	for _, p := range []*plane{slow, quick} {
		p.publish(signed(t, durably, fmt.Sprint("b", p.generation), "{}"))
		s.verified(p)
	}
	s.pass(2 * time.Millisecond)
	s.settled(1)
	wantOne(t, quick.take(1), shmabi.ReplyAccepted, 200, 0)
	s.pass(time.Minute)
	s.settled(3)
	if got := slow.take(2); got[0].position != at {
		t.Errorf("the first answer is for %d", got[0].position)
	}
}

func TestTheNextLifeHasNoStation(t *testing.T) {
	s := newSlow(t)
	p := s.plane(roomy)
	s.service.SetStation(1, time.Hour)
	at := p.publish(signed(t, durably, "a", "{}"))
	s.verified(p)
	s.restart()
	wantOne(t, p.take(1), shmabi.ReplyAccepted, 200, at)
}
