package postgres

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"sluice/go/internal/destination"
)

func newWaiter(n int) *waiter {
	return &waiter{
		row: row{attempt: int32(n), data: new([]byte)}, done: make(chan destination.Result, 1),
	}
}

func TestWorkersAreHiredByWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hired := 0
		l := &line{workersMax: 3, perWorker: 10, hire: func() { hired++ }}
		defer l.close()
		enter := func(n, want int) {
			t.Helper()
			for i := range n {
				l.enter(newWaiter(i))
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			if hired != want {
				t.Fatalf("%d workers, want %d", hired, want)
			}
		}
		enter(1, 1)   // an idle line waits for nobody
		enter(8, 1)   // nine wait, the one worker has not come yet
		enter(1, 2)   // ten
		enter(9, 2)   // nineteen
		enter(1, 3)   // twenty
		enter(100, 3) // that is all of them
		take := func(n int, starts bool, want, workers int) {
			t.Helper()
			if got := len(l.take(nil, n, starts)); got != want || l.workers != workers {
				t.Fatalf("%d rows, %d workers, want %d, %d", got, l.workers, want, workers)
			}
		}
		take(90, true, 90, 3)  // leaves thirty
		take(11, false, 11, 3) // as many as three workers are for
		take(19, false, 0, 2)  // nineteen are for two
		take(10, false, 10, 2)
		take(10, false, 0, 1)
		take(10, false, 9, 1) // the last one takes whatever there is
		take(10, false, 0, 0)

		// Company is waited for, but not for long.
		hired = 0
		enter(1, 1)
		enter(5, 1)
		time.Sleep(gatherTime - time.Nanosecond)
		synctest.Wait()
		enter(0, 1)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		enter(0, 2)
		time.Sleep(gatherTime)
		synctest.Wait()
		enter(0, 3)
		time.Sleep(10 * gatherTime)
		synctest.Wait()
		enter(0, 3)
	})
}

// The line against a list: who enters is taken once, in order, or left, and never both. In the
// bubble no alarm rings between two steps.
func TestTheLineKeepsItsOrder(t *testing.T) {
	random := dice(t)
	synctest.Test(t, func(t *testing.T) { keepsItsOrder(t, random) })
}

func keepsItsOrder(t *testing.T, random *rand.Rand) {
	l := &line{workersMax: 4, perWorker: 3, hire: func() {}}
	defer l.close()
	var model []*waiter
	for step := range 50_000 {
		switch random.IntN(8) {
		case 0, 1, 2:
			w := newWaiter(step)
			w.row.body = make([]byte, random.IntN(batchBytesMax/64))
			if !l.enter(w) {
				t.Fatal("no room")
			}
			model = append(model, w)
		case 3, 4, 5:
			if len(model) == 0 {
				break
			}
			i := random.IntN(len(model))
			if !l.leave(model[i]) {
				t.Fatal("a row that waited could not leave")
			}
			model = append(model[:i:i], model[i+1:]...)
		default:
			if l.workers == 0 {
				break
			}
			countMax := 1 + random.IntN(100)
			workers := l.workers
			batch := l.take(nil, countMax, random.IntN(2) == 0)
			if l.workers < workers {
				if len(batch) > 0 || l.workers == 0 && len(model) > 0 {
					t.Fatalf("step %d: a worker ended with %d rows of %d", step, len(batch), len(model))
				}
				break
			}
			size := 0
			for i, w := range batch {
				size += len(w.row.body)
				if w != model[i] || l.leave(w) {
					t.Fatalf("step %d: row %d is not the next, or left after it was taken", step, i)
				}
			}
			if len(batch) > countMax || len(batch) > 1 && size > batchBytesMax {
				t.Fatalf("step %d: a batch of %d rows and %d bytes", step, len(batch), size)
			}
			model = model[len(batch):]
			if len(model) > 0 && len(batch) < countMax &&
				size+len(model[0].row.body) <= batchBytesMax {
				t.Fatalf("step %d: one more row had room", step)
			}
		}
		if l.waiting != len(model) || len(l.queue) > 2*l.waiting+sweepMin+1 {
			t.Fatalf("step %d: %d wait of %d, want %d", step, l.waiting, len(l.queue), len(model))
		}
	}
}

func TestTheLineIsBounded(t *testing.T) {
	l := &line{workersMax: 1, perWorker: 1, hire: func() {}}
	for i := range waitingMax {
		if !l.enter(newWaiter(i)) {
			t.Fatalf("no room for row %d", i)
		}
	}
	if l.enter(newWaiter(0)) {
		t.Fatal("more rows wait than may")
	}
	for range 10 * waitingMax { // as when the server hangs
		l.leave(l.queue[len(l.queue)-1])
		if !l.enter(newWaiter(0)) {
			t.Fatal("room that was given back is not used")
		}
	}
	if len(l.queue) > 2*waitingMax+sweepMin {
		t.Fatalf("rows that left are kept: %d", len(l.queue))
	}
}
