package doctor

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// Level says how a finding is to be taken.
type Level string

// The levels. Warn: it works, but worse or on another path than it could. Fail: it will not work.
const (
	OK   Level = "ok"
	Warn Level = "warn"
	Fail Level = "fail"
)

// Finding is one thing that was looked at.
type Finding struct {
	Name   string `json:"name"`
	Level  Level  `json:"level"`
	Detail string `json:"detail"`
	Mend   string `json:"mend,omitempty"` // what to do; empty when there is nothing to do
}

// Options says what the host is to be measured against.
type Options struct {
	Host      Host   // zero fields are this host's
	Dataplane string // the program to ask about io_uring; empty: judge from /proc

	DataDir        string
	ShmDir         string
	Workers        int
	RingSize       int64 // bytes, per worker
	MaxConnections int
	DedupMemory    int64 // bytes that the filters of dedup keys may take
	// Addresses are those the daemon will bind: host:port, unix:PATH, or systemd:NAME.
	Addresses []string
	// Certificates are those that the listeners show.
	Certificates []Certificate
	Driver       string // auto | io_uring | epoll
	Sandbox      string // auto | off | require
	User         string // whom the data plane becomes where the daemon is root
	// Running says that a daemon of this config is up, so that its ports and its shared memory are
	// taken by itself.
	Running bool
}

// Run looks at everything, in the order of the findings.
func Run(ctx context.Context, o Options) []Finding {
	h := o.Host.complete()
	findings := []Finding{kernel(h, o), ioUring(ctx, h, o)}
	findings = append(findings, lockedMemory(h, o), openFiles(h, o))
	findings = append(findings, sharedMemory(h, o), memory(h, o), swap(h, o))
	findings = append(findings, rights(h, o), layers(h, o), dumps(h))
	findings = append(findings, bpf(h), kernelTLS(h), clock(h))
	findings = append(findings, dataDir(h, o)...)
	findings = append(findings, certificates(h, o)...)
	return append(findings, ports(h, o)...)
}

// Worst is the gravest level among findings.
func Worst(findings []Finding) Level {
	worst := OK
	for _, f := range findings {
		if f.Level == Fail || f.Level == Warn && worst == OK {
			worst = f.Level
		}
	}
	return worst
}

// Print writes findings for people, one a line and its mend below.
func Print(w io.Writer, findings []Finding) error {
	width := 0
	for _, f := range findings {
		width = max(width, len(f.Name))
	}
	for _, f := range findings {
		_, err := fmt.Fprintf(w, "%-4s  %-*s  %s\n", f.Level, width, f.Name, f.Detail)
		if err != nil {
			return err
		}
		if f.Mend == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "%s-> %s\n", strings.Repeat(" ", width+8), f.Mend); err != nil {
			return err
		}
	}
	return nil
}

// withoutRing is what a host without io_uring means for the config.
func (o Options) withoutRing() (Level, string) {
	switch o.Driver {
	case "io_uring":
		return Fail, "the data plane does not start with driver: io_uring; auto would take epoll"
	case "epoll":
		return OK, "the config says driver: epoll"
	}
	return Warn, "the data plane takes the epoll path"
}

func good(name, format string, args ...any) Finding {
	return Finding{Name: name, Level: OK, Detail: fmt.Sprintf(format, args...)}
}

func bad(level Level, name, mend, format string, args ...any) Finding {
	return Finding{Name: name, Level: level, Detail: fmt.Sprintf(format, args...), Mend: mend}
}
