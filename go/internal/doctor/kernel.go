package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// The kernel from which the io_uring driver works.
const (
	kernelMajor = 6
	kernelMinor = 1
)

func kernel(h Host, o Options) Finding {
	release, found := h.read("proc/sys/kernel/osrelease")
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); !found || err != nil {
		return bad(Warn, "kernel", "mount /proc", "the kernel does not say its version")
	}
	old := major < kernelMajor || major == kernelMajor && minor < kernelMinor
	if level, then := o.withoutRing(); old && level != OK {
		return bad(level, "kernel", fmt.Sprintf("run Linux %d.%d or later", kernelMajor, kernelMinor),
			"Linux %s is older than %d.%d: %s", release, kernelMajor, kernelMinor, then)
	}
	return good("kernel", "Linux %s", release)
}

// ioUring asks the data plane itself where it can: that an operation is listed does not say that it
// works, nor that nothing filters it.
func ioUring(ctx context.Context, h Host, o Options) Finding {
	const name = "io_uring"
	level, then := o.withoutRing()
	if level == OK {
		return good(name, "not used: %s", then)
	}
	if o.Dataplane != "" {
		return probed(ctx, h, o)
	}
	state, found := h.read("proc/sys/kernel/io_uring_disabled")
	switch {
	case found && state == "1" && h.can(capSysAdmin):
		return good(name, "kernel.io_uring_disabled is 1, which this process may pass")
	case found && state != "0":
		return bad(level, name, h.uringMend(), "kernel.io_uring_disabled is %s: %s", state, then)
	case h.filtered():
		return bad(level, name, h.uringMend(), "a seccomp filter is in force; if it refuses io_uring, "+
			"as most do, %s", then)
	case !found:
		return good(name, "no switch that turns it off; judged without the data plane's probe")
	}
	return good(name, "allowed by kernel.io_uring_disabled; judged without the data plane's probe")
}

// filtered tells whether a seccomp filter is in force.
func (h Host) filtered() bool {
	text, _ := h.read("proc/self/status")
	for line := range strings.Lines(text) {
		if rest, is := strings.CutPrefix(line, "Seccomp:"); is {
			return strings.TrimSpace(rest) == "2"
		}
	}
	return false
}

// probed reads the one JSON object of `sluice-dataplane --probe`. It exits with 0 when the data
// plane can run here, on whichever backend; otherwise the object says why not.
func probed(ctx context.Context, h Host, o Options) Finding {
	const name = "io_uring"
	const mend = "build sluice-dataplane of this version, or name it with --dataplane"
	program := o.Dataplane
	out, failed := h.Probe(ctx, program)
	var answer struct {
		Backend string   `json:"backend"` // uring or epoll
		Refusal string   `json:"refusal"` // why not io_uring
		Lacking []string `json:"lacking"` // useful features that the kernel has not
	}
	err := json.Unmarshal(out, &answer)
	switch {
	case err != nil && failed != nil:
		return bad(Fail, name, mend, "%s --probe: %v", program, failed)
	case err != nil:
		return bad(Fail, name, mend, "%s --probe: %v", program, err)
	case failed != nil && answer.Refusal != "":
		return bad(Fail, name, h.uringMend(), "the data plane cannot run here: %s", answer.Refusal)
	case failed != nil:
		return bad(Fail, name, mend, "%s --probe: %v", program, failed)
	case answer.Backend == "":
		return bad(Fail, name, mend, "%s --probe names no backend", program)
	case answer.Backend != "uring":
		level, then := o.withoutRing()
		return bad(level, name, h.uringMend(), "%s: %s", then,
			cmp.Or(answer.Refusal, "it gives no reason"))
	case len(answer.Lacking) > 0:
		return good(name, "used; without %s", strings.Join(answer.Lacking, ", "))
	}
	return good(name, "used")
}

// uringMend tells the usual causes of a refusal apart.
func (h Host) uringMend() string {
	if state, found := h.read("proc/sys/kernel/io_uring_disabled"); found && state != "0" {
		return "set kernel.io_uring_disabled to 0"
	}
	if h.filtered() {
		return "allow io_uring_setup, io_uring_enter and io_uring_register in the container's " +
			"seccomp profile"
	}
	return fmt.Sprintf("run Linux %d.%d or later and raise LimitMEMLOCK", kernelMajor, kernelMinor)
}

func bpf(h Host) Finding {
	types := h.Exists(h.path("sys/kernel/btf/vmlinux"))
	switch {
	case !types:
		return good("bpf", "no type information in the kernel (BTF): filters in the kernel stay off")
	case !h.can(capBPF) && !h.can(capSysAdmin) || !h.can(capNetAdmin) && !h.can(capSysAdmin):
		return good("bpf", "in the kernel, but this process lacks CAP_BPF and CAP_NET_ADMIN: "+
			"filters in the kernel stay off")
	}
	return good("bpf", "can be loaded")
}

func kernelTLS(h Host) Finding {
	protocols, _ := h.read("proc/sys/net/ipv4/tcp_available_ulp")
	if slices.Contains(strings.Fields(protocols), "tls") {
		return good("ktls", "the kernel can encrypt TLS records")
	}
	return good("ktls", "not loaded (`modprobe tls`): TLS is encrypted in the data plane")
}

func clock(h Host) Finding {
	synced, err := h.Synced()
	switch {
	case err != nil:
		return good("clock", "the kernel does not say whether it is kept: %v", err)
	case !synced:
		return bad(Warn, "clock", "run chrony, systemd-timesyncd or another time service",
			"no time service keeps the clock: signatures with a timestamp may be refused as expired")
	}
	return good("clock", "kept by a time service")
}
