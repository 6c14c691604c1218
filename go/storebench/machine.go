package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"sluice/go/storebench/meter"
)

// describe says what the numbers were measured on, how, and how to measure them again.
func describe(out io.Writer, o options) {
	fmt.Fprintf(out, "sluice store bench, %s\n", time.Now().UTC().Format(time.RFC3339))
	args := append([]string{}, os.Args[1:]...)
	for i, arg := range args {
		// A URL may carry a password.
		if strings.Contains(arg, "://") || (i > 0 && strings.HasSuffix(args[i-1], "postgres")) {
			args[i] = "…"
		}
	}
	fmt.Fprintf(out, "command: go run ./go/storebench %s\n", strings.Join(args, " "))
	model := runtime.GOARCH
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, text, ok := strings.Cut(string(data), "model name\t: "); ok {
			model, _, _ = strings.Cut(text, "\n")
		}
	}
	var kb int
	_, _ = fmt.Sscanf(firstLine("/proc/meminfo"), "MemTotal: %d kB", &kb)
	fmt.Fprintf(out, "machine: %d CPUs, %s, %d GiB\n", runtime.NumCPU(), model, (kb+(1<<19))>>20)
	fmt.Fprintf(out, "kernel: %s, go: %s\n", firstLine("/proc/sys/kernel/osrelease"),
		runtime.Version())
	device, err := meter.Device(o.dir)
	if err != nil {
		device = "none that counts what it writes"
	}
	fmt.Fprintf(out, "disk: %s; device: %s, whoever writes to it\n", meter.FileSystem(o.dir), device)
	fmt.Fprintf(out, "load average %s\n", firstLine("/proc/loadavg"))
	fmt.Fprintf(out, "short rows %v each, %d round(s) added up; sender's ids: %v\n", o.duration,
		o.rounds, o.keys)
	fmt.Fprintln(out, "~ marks a row during which others used too much of the machine to judge it")
	fmt.Fprintln(out)
}

func firstLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return line
}
