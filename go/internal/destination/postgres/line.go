package postgres

import (
	"slices"
	"sync"
	"time"

	"sluice/go/internal/destination"
)

// line is where rows wait for a connection, first come first served.
type line struct {
	workersMax int
	perWorker  int    // rows that have to wait, for each worker there is, before another one starts
	hire       func() // starts a worker, which calls take until that gives nothing; does not block

	mu      sync.Mutex
	queue   []*waiter // those that left are in it still
	waiting int       // of them, those that did not leave
	workers int
	alarm   *time.Timer // starts a worker at the end of gatherTime; nil when not set
	closed  bool
}

// waiter is one Deliver that waits.
type waiter struct {
	row     row
	done    chan destination.Result // takes one result without blocking
	timeout *time.Timer             // of the wait for a connection

	// Under line.mu; at most one of them holds.
	taken bool // by a worker, which sends a result
	left  bool // nobody listens any more
}

// waiters keeps those that nobody holds any more.
var waiters = sync.Pool{New: func() any {
	w := &waiter{done: make(chan destination.Result, 1), timeout: time.NewTimer(time.Hour)}
	w.timeout.Stop()
	return w
}}

// enter puts a row at the end and sees to it that somebody comes for it; false: there is no room.
func (l *line) enter(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == waitingMax || l.closed {
		return false
	}
	l.queue = append(l.queue, w)
	l.waiting++
	if l.workers < l.workersMax && l.waiting >= l.workers*l.perWorker {
		l.workers++
		l.hire()
	}
	l.watch()
	return true
}

// watch sets the alarm where rows wait for company.
func (l *line) watch() {
	if l.alarm == nil && l.waiting > 0 && l.workers < l.workersMax && !l.closed {
		l.alarm = time.AfterFunc(gatherTime, l.gathered)
	}
}

// gathered is the alarm's: what waits has waited long enough.
func (l *line) gathered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alarm = nil
	if !l.closed && l.waiting > 0 && l.workers < l.workersMax {
		l.workers++
		l.hire()
	}
	l.watch()
}

// leave takes a row out that no worker has taken; false: a result comes.
func (l *line) leave(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.taken {
		return false
	}
	w.left = true
	w.row.free()
	l.waiting--
	if len(l.queue) > 2*l.waiting+sweepMin {
		l.queue = slices.DeleteFunc(l.queue, func(w *waiter) bool { return w.left })
	}
	return true
}

// sweepMin is how many rows that left may lie in the queue before it is worth a sweep.
const sweepMin = 64

// take gives the rows of the next statement into batch, which is empty, to a worker that starts or
// has written. With none the worker ends: nothing waits, or so little that those that write now
// will have it in one of their next statements.
func (l *line) take(batch []*waiter, countMax int, starts bool) []*waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == 0 || (!starts && l.waiting < (l.workers-1)*l.perWorker) {
		l.workers--
		l.watch()
		return batch
	}
	size, passed := 0, 0
	for _, w := range l.queue {
		if !w.left {
			size += len(w.row.body)
			if len(batch) == countMax || (len(batch) > 0 && size > batchBytesMax) {
				break
			}
			w.taken = true
			batch = append(batch, w)
		}
		passed++
	}
	rest := copy(l.queue, l.queue[passed:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	l.waiting -= len(batch)
	return batch
}

// close keeps workers from starting.
func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.alarm != nil {
		l.alarm.Stop()
	}
}
