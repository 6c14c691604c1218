// Package referee says on what a benchmark ran, whether the machine was quiet enough to judge it,
// and which of its gates are met: the same words for every benchmark of the project.
//
// It measures no subject, knows no gate of its own and starts nothing but df(1).
package referee

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Head is what stands above the numbers of a run.
type Head struct {
	Title string   // what was run
	Make  string   // the target of the Makefile that runs it
	Given []string // flags that the target gives by itself
	Dir   string   // a folder on the disk that is measured; empty: none is
	Notes []string // how it was measured, a line each
}

// Print says what the numbers were measured on, how, and how to measure them again.
func (h Head) Print(out io.Writer) {
	fmt.Fprintf(out, "sluice %s, %s\n", h.Title, time.Now().UTC().Format(time.RFC3339))
	fmt.Fprintf(out, "command: make %s", h.Make)
	if flags := shownFlags(os.Args[1:], h.Given); flags != "" {
		fmt.Fprintf(out, " BENCH_FLAGS='%s'", flags)
	}
	fmt.Fprintf(out, "\nmachine: %d CPUs, %s, %s\n", runtime.NumCPU(), processor(), memory())
	fmt.Fprintf(out, "kernel: %s, go: %s\n", firstLine("/proc/sys/kernel/osrelease"),
		runtime.Version())
	if h.Dir != "" {
		fmt.Fprintf(out, "disk: %s\n", fileSystem(h.Dir))
	}
	load := strings.Fields(firstLine("/proc/loadavg"))
	fmt.Fprintf(out, "load average: %s\n", strings.Join(load[:min(3, len(load))], " "))
	for _, note := range h.Notes {
		fmt.Fprintln(out, note)
	}
	fmt.Fprintf(out, "~ marks what had over %g of a core taken from it, by others or by the host: it "+
		"is not judged\n\n", NoisyCores)
}

// shownFlags leaves out the flags that come by themselves, and what may carry a password: any URL,
// and the value of -postgres.
func shownFlags(args, given []string) string {
	var shown []string
	secret := false
	for _, arg := range args {
		name, _, joined := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		isFlag := strings.HasPrefix(arg, "-")
		switch {
		case secret || strings.Contains(arg, "://") || (isFlag && joined && name == "postgres"):
			shown = append(shown, "…")
		case isFlag && contains(given, name):
		case strings.ContainsAny(arg, " \t"):
			shown = append(shown, `"`+arg+`"`)
		default:
			shown = append(shown, arg)
		}
		secret = isFlag && !joined && name == "postgres"
	}
	return strings.Join(shown, " ")
}

func contains(flags []string, name string) bool {
	for _, flag := range flags {
		if strings.TrimLeft(flag, "-") == name {
			return true
		}
	}
	return false
}

func processor() string {
	data, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(data)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func memory() string {
	var kb int
	if _, err := fmt.Sscanf(firstLine("/proc/meminfo"), "MemTotal: %d kB", &kb); err != nil {
		return "memory unknown"
	}
	return fmt.Sprintf("%d GiB", (kb+(1<<19))>>20)
}

func firstLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(data), "\n")
	return line
}

// fileSystem names the kind of file system under a folder and its device, not the folder.
func fileSystem(dir string) string {
	out, err := exec.Command("df", "--output=fstype,source", dir).Output()
	if err != nil {
		return "unknown"
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(strings.Fields(lines[len(lines)-1]), " on ")
}
