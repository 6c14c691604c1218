package deliver

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestNoStretchOfTimeHasMoreThanTheRateAndTheDepth(t *testing.T) {
	rng := seeded(t)
	for range 30 {
		b := bucket{}
		b.set(0.1 + 500*rng.Float64()*rng.Float64())
		now := time.Unix(1767225600, 0)
		var began []time.Time
		for range 1000 {
			now = now.Add(time.Duration(rng.Int64N(1 << (20 + rng.IntN(14)))))
			n, wait := b.room(now, 1+rng.IntN(30))
			if n == 0 {
				now = now.Add(wait)
				if n, _ = b.room(now, 1); n != 1 {
					t.Fatalf("rate %v: none after its own wait of %v", b.rate, wait)
				}
			}
			b.take(n)
			for range n {
				began = append(began, now)
			}
		}
		for i := range began {
			for j := i; j < min(i+200, len(began)); j++ {
				span := began[j].Sub(began[i]).Seconds()
				if most := b.depth() + b.rate*span + 1e-6; float64(j-i+1) > most {
					t.Fatalf("rate %v: %d in %v s", b.rate, j-i+1, span)
				}
			}
		}
	}
}

func TestTheRateIsKeptAndReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, rate := range []float64{0.5, 3, 200} {
			q, r := newQueue(t), accepting()
			q.add(int(30*rate), 0)
			begin := time.Now()
			s := start(t, q, Options{}, Target{Destination: r, Rate: rate})
			pass(10 * time.Second)
			if n := len(r.seen()); float64(n) < 9.9*rate || float64(n) > 10.1*rate+max(1, rate/20) {
				t.Errorf("rate %v: %d in 10 s", rate, n)
			}
			pass(time.Minute)
			if n := len(r.seen()); n != int(30*rate) {
				t.Errorf("rate %v: %d of %d", rate, n, int(30*rate))
			}
			if end := r.times[len(r.times)-1].Sub(begin); end > 31*time.Second {
				t.Errorf("rate %v: the last after %v", rate, end)
			}
			stop(t, s)
			q.check()
		}
	})
}

// A slow attempt must not keep the next one from its turn.
func TestTheRateDoesNotWaitForAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, r := newQueue(t), hanging(10*time.Second)
		q.add(20, 0)
		begin := time.Now()
		s := start(t, q, Options{}, Target{Destination: r, Rate: 10, Concurrency: Fixed(20)})
		pass(5 * time.Second)
		if len(r.times) != 20 || r.times[19].Sub(begin) > 2*time.Second {
			t.Errorf("%d attempts", len(r.times))
		}
		stop(t, s)
		q.check()
	})
}

func TestAClockThatIsSetBackDoesNotStopTheRate(t *testing.T) {
	b, now := bucket{}, time.Unix(1767225600, 0)
	b.set(10)
	b.room(now, 1)
	b.take(1)
	now = now.Add(-24 * time.Hour)
	if n, wait := b.room(now, 1); n != 0 || wait > 100*time.Millisecond+time.Microsecond {
		t.Errorf("room for %d, wait %v", n, wait)
	}
	if n, _ := b.room(now.Add(101*time.Millisecond), 1); n != 1 {
		t.Error("none after a tenth of a second")
	}
}

func TestALowerRateIsInForceAtOnce(t *testing.T) {
	b, now := bucket{}, time.Unix(1767225600, 0)
	b.set(1000)
	b.room(now, 1)
	now = now.Add(time.Second)
	if n, _ := b.room(now, 100); n != 50 {
		t.Errorf("room for %d, the depth is 50", n)
	}
	b.set(10)
	if n, _ := b.room(now.Add(time.Millisecond), 100); n != 1 {
		t.Errorf("room for %d after the rate fell", n)
	}
}
