// Package thread tells what a stage of the work behind a verdict costs, and lets some of it wait
// for the rest: it gives a stage a thread of its own, under a name that the system's tools show,
// or measures another now and then.
//
// It starts nothing. Who runs first the kernel decides, among threads: the runtime must have more
// of them than there are stages that compute for milliseconds (see Spread).
package thread

import (
	"os"
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

// niceness of what Yield lets wait: a tenth of a share beside work that is not nice (sched(7)), so
// that it goes on even where that never rests.
const niceness = 10

// Yield lets other work go before what the calling goroutine does on its thread from now on. The
// thread cannot become what it was: the goroutine must be locked to it and end locked, whereupon
// the runtime ends the thread too.
func Yield() {
	// Without it the work is done as well, at the cost of what others wait.
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, niceness)
}

// spreadMin is how many goroutines may compute at once at the least: intake, committer, applier and
// one of the index engine's.
const spreadMin = 4

// Spread lets the kernel share out the processors among the stages where there are fewer of them
// than stages. The runtime's own turns are of 10 ms: for so long the index would hold up an
// acknowledgement that is ready. GOMAXPROCS in the environment has the last word.
func Spread() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(max(spreadMin, runtime.GOMAXPROCS(0)))
	}
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
