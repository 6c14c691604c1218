// Package thread tells what a stage of the work behind a verdict costs: it gives one a thread of
// its own, under a name that the system's tools show, or measures another now and then.
//
// It starts nothing and schedules nothing: a goroutine that owns its thread is run like any other.
package thread

import (
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nameMax is what the kernel keeps of a thread's name (TASK_COMM_LEN less its final zero).
const nameMax = 15

// Own ties the calling goroutine to its thread for good and names the thread; both end together.
func Own(name string) {
	runtime.LockOSThread()
	var text [nameMax + 1]byte
	copy(text[:nameMax], name)
	// A thread without a name works as well.
	_ = unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&text[0])), 0, 0, 0)
}

// Used is the CPU time that the calling thread has taken; of use while its goroutine is locked to
// it.
func Used() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0 // the kernel has no such clock: nothing is known
	}
	return time.Duration(t.Nano())
}

// Meter estimates the CPU time of a stretch of work that is done often, from one time in
// meterEvery: to be sure of its thread costs a goroutine more than many stretches do. One goroutine
// at a time may use it; any may read it.
type Meter struct {
	times uint32
	total atomic.Int64
}

const meterEvery = 16

// Begin comes before the stretch; End takes what it gave.
func (m *Meter) Begin() (began time.Duration) {
	m.times++
	if m.times%meterEvery != 1 {
		return -1
	}
	runtime.LockOSThread()
	return Used()
}

// End comes behind the stretch.
func (m *Meter) End(began time.Duration) {
	if began < 0 {
		return
	}
	m.total.Add(meterEvery * int64(Used()-began))
	runtime.UnlockOSThread()
}

// Total is the estimate so far.
func (m *Meter) Total() time.Duration { return time.Duration(m.total.Load()) }
