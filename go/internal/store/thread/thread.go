// Package thread gives a stage of the work behind a verdict a thread of its own, under a name, so
// that the system's tools tell what it costs.
//
// It starts nothing and schedules nothing: a goroutine that owns its thread is run like any other.
package thread

import (
	"runtime"
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
