package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// source is one source of the configuration that the bench runs with.
type source struct {
	name        string
	acknowledge string
	priority    string
}

// configuration is the smallest one that measures the gateway and no destination.
func configuration(data, shm, listen, admin, secretFile, more string, sources []source) string {
	var b strings.Builder
	fmt.Fprintf(&b, "data_dir: %s\nshm_dir: %s\nworkers: 1\nlisteners:\n  - address: %s\n",
		data, shm, listen)
	fmt.Fprintf(&b, "admin:\n  http: %s\n%ssources:\n", admin, more)
	for _, s := range sources {
		fmt.Fprintf(&b, "  %s:\n    path: /hooks/%s\n    provider: github\n", s.name, s.name)
		fmt.Fprintf(&b, "    secrets: [\"file:%s\"]\n    acknowledge: %s\n", secretFile, s.acknowledge)
		if s.priority != "" {
			fmt.Fprintf(&b, "    priority: %s\n", s.priority)
		}
		b.WriteString("    deliver: []\n")
	}
	return b.String()
}

// startSluice runs the daemon on an empty data directory and waits until it is ready. `more` is
// further configuration; args are further arguments of `sluice run`.
func startSluice(
	o options, dir, more string, sources []source, args ...string,
) (*subject, error) {
	for _, name := range []string{"sluice", "sluice-dataplane"} {
		if _, err := os.Stat(filepath.Join(o.bin, name)); err != nil {
			return nil, fmt.Errorf("%w: %s is not built", errLeftOut, filepath.Join(o.bin, name))
		}
	}
	addresses, err := freeAddresses(2)
	if err != nil {
		return nil, err
	}
	shm, err := os.MkdirTemp(memoryFolder(), "sluice-bench-")
	if err != nil {
		return nil, err
	}
	secretFile, config := filepath.Join(dir, "secret"), filepath.Join(dir, "sluice.yaml")
	text := configuration(filepath.Join(dir, "data"), shm, addresses[0], addresses[1],
		secretFile, more, sources)
	for name, content := range map[string]string{secretFile: secret, config: text} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	log, err := os.Create(filepath.Join(dir, "sluice.log"))
	if err != nil {
		return nil, err
	}
	args = append([]string{"run", "--config", config}, args...)
	cmd := command(o, 0, filepath.Join(o.bin, "sluice"), args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := func() {
		children := childrenOf(cmd.Process.Pid)
		end(cmd)
		for _, child := range children {
			// Only what outlived its supervisor, and only if the number is still its.
			if p, err := readProcess(child.pid); err == nil && p.name == child.name {
				_ = syscall.Kill(child.pid, syscall.SIGKILL)
			}
		}
		_ = log.Close()
		_ = os.RemoveAll(shm)
	}
	if err := waitReady("http://" + addresses[1] + "/readyz"); err != nil {
		stop()
		tail, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("%w; its log ends:\n%s", err, lastLines(tail, 15))
	}
	metrics := "http://" + addresses[1] + "/metrics"
	return &subject{
		url:     "http://" + addresses[0] + "/hooks/" + sources[0].name,
		metrics: metrics,
		config:  config,
		usage:   func() (usage, error) { return sluiceUsage(cmd.Process.Pid, metrics) },
		stop:    stop,
	}, nil
}

func childrenOf(pid int) []process {
	var children []process
	for _, p := range processes() {
		if p.parent == pid {
			children = append(children, p)
		}
	}
	return children
}
