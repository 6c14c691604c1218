package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// describe says what the numbers were measured on, how, and how to measure them again.
func describe(out io.Writer, rounds int, window time.Duration) {
	fmt.Fprintf(out, "sluice verification bench, %s\n", time.Now().UTC().Format(time.RFC3339))
	fmt.Fprintf(out, "command: verifybench %s\n", strings.Join(os.Args[1:], " "))
	model := runtime.GOARCH
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, text, ok := strings.Cut(string(data), "model name\t: "); ok {
			model, _, _ = strings.Cut(text, "\n")
		}
	}
	fmt.Fprintf(out, "machine: %d CPUs, %s, go: %s\n", runtime.NumCPU(), model, runtime.Version())
	fmt.Fprintf(out, "ns are the best of %d windows of %v, taken by turns; allocations are of one "+
		"verdict\n", rounds, window)
	fmt.Fprintln(out, "proof and verdict are ours: the signature alone, and with the event's id and "+
		"type; the ratios are the proof's")
	fmt.Fprint(out, "~ marks a row during which others used too much of the machine to judge it\n\n")
}

// usage is how much CPU time was used until then.
type usage struct {
	at        time.Time
	busy, own float64 // seconds, of the machine and of this process
}

func startUsage() usage {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it cannot fail for the process itself
	}
	return usage{time.Now(), machineBusy(),
		time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()}
}

// others is how many cores the rest of the machine has used since, what the host took included.
func (u usage) others() float64 {
	now := startUsage()
	return max(0, now.busy-u.busy-(now.own-u.own)) / now.at.Sub(u.at).Seconds()
}

// machineBusy is the CPU seconds of the whole machine that were not idle; 0 without /proc.
func machineBusy() (busy float64) {
	const ticks = 100 // USER_HZ, which the kernel shows to every program as 100
	data, _ := os.ReadFile("/proc/stat")
	line, _, _ := bytes.Cut(data, []byte("\n"))
	for at, text := range strings.Fields(string(line)) {
		switch at {
		case 1, 2, 3, 6, 7, 8: // user, nice, system, irq, softirq, steal; proc(5)
			n, _ := strconv.ParseFloat(text, 64)
			busy += n / ticks
		}
	}
	return busy
}
