package referee

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ticksPerSecond is USER_HZ, which the kernel shows to every program as 100 on the machines we
// build for.
const ticksPerSecond = 100

// NoisyCores is how much of a core others may use before a row is not judged any more: the same
// binary reads 40 % apart on a busy machine.
const NoisyCores = 0.4

// Cores is how much of the machine was not there for a measurement, on average: others used it, or
// the host took it.
type Cores float64

// Noisy tells that it was too much for the measurement to be judged.
func (c Cores) Noisy() bool { return c > NoisyCores }

// String says so in words.
func (c Cores) String() string {
	return fmt.Sprintf("%.2f cores were used by others", float64(c))
}

// Mark is what stands behind a row in a table: " ~" or nothing.
func (c Cores) Mark() string {
	if c.Noisy() {
		return " ~"
	}
	return ""
}

// Watch is the whole machine at one moment.
type Watch struct {
	began time.Time
	busy  float64
}

// StartWatch begins to watch.
func StartWatch() Watch { return Watch{time.Now(), Busy()} }

// Others is what all else used since the start, where known is the CPU seconds meanwhile of those
// who belong to the measurement.
func (w Watch) Others(known float64) Cores { return w.others(Watch{time.Now(), Busy()}, known) }

func (w Watch) others(now Watch, known float64) Cores {
	return Cores(max(0, now.busy-w.busy-known) / now.began.Sub(w.began).Seconds())
}

// Busy is the seconds since its start for which the CPUs of the machine were not idle, those that
// the host took included; 0 where nobody tells.
func Busy() (seconds float64) {
	for at, text := range strings.Fields(firstLine("/proc/stat")) {
		switch at {
		case 1, 2, 3, 6, 7, 8: // user, nice, system, irq, softirq, steal: proc_stat(5)
			ticks, _ := strconv.ParseFloat(text, 64)
			seconds += ticks / ticksPerSecond
		}
	}
	return seconds
}

// Own is the CPU seconds of this process.
func Own() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it cannot fail for the process itself
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// Process is what the kernel says of one.
type Process struct {
	PID, Parent int
	Name        string  // at most 15 bytes of it
	Own         float64 // CPU seconds, exited threads included
	User        float64 // of these: outside the kernel
	Children    float64 // CPU seconds of children that were waited for
}

// ReadProcess reads /proc/PID/stat, and the process's own clock: in the file each process lacks
// what it has used of a tick, which for many with little to do is most of it.
func ReadProcess(pid int) (Process, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Process{}, err
	}
	p, err := parseStat(string(data))
	if seconds, ok := clockOf(pid); ok && err == nil {
		p.Own = seconds
	}
	return p, err
}

// clockOf is the CPU seconds of a process to the nanosecond, while it lives. The clock's number is
// what clock_getcpuclockid(3) gives.
func clockOf(pid int) (seconds float64, ok bool) {
	const scheduled = 2 // CPUCLOCK_SCHED of the kernel's posix-timers.h
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduled), &t); err != nil {
		return 0, false
	}
	return time.Duration(t.Nano()).Seconds(), true
}

// parseStat reads a line of proc_pid_stat(5). The name stands in parentheses and may hold any
// character, so the fields are counted from its last parenthesis.
func parseStat(line string) (Process, error) {
	open, shut := strings.IndexByte(line, '('), strings.LastIndexByte(line, ')')
	if open < 1 || shut < open {
		return Process{}, fmt.Errorf("no process line: %q", line)
	}
	fields := strings.Fields(line[shut+1:])
	if len(fields) < 15 {
		return Process{}, fmt.Errorf("process line has %d fields", len(fields))
	}
	number := func(at int) float64 {
		n, _ := strconv.ParseFloat(fields[at], 64)
		return n
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line[:open]))
	if err != nil {
		return Process{}, err
	}
	return Process{
		PID:      pid,
		Parent:   int(number(1)),
		Name:     line[open+1 : shut],
		Own:      (number(11) + number(12)) / ticksPerSecond,
		User:     number(11) / ticksPerSecond,
		Children: (number(13) + number(14)) / ticksPerSecond,
	}, nil
}

// Processes lists all that can be read; one that ends meanwhile is left out.
func Processes() []Process {
	paths, _ := filepath.Glob("/proc/[0-9]*")
	var all []Process
	for _, path := range paths {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err != nil {
			continue
		}
		if p, err := ReadProcess(pid); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// UsageOf is the CPU seconds of every process of a name. One that has ended is counted where its
// parent, which has waited for it, has that name.
func UsageOf(name string) (seconds float64) {
	for _, p := range Processes() {
		if p.Name == name {
			seconds += p.Own + p.Children
		}
	}
	return seconds
}
