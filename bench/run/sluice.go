package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"sluice/bench/referee"
)

// source is one source of the configuration that the bench runs with.
type source struct {
	name        string
	acknowledge string
	priority    string
	proof       string // lines that say how requests are proven; empty: as GitHub does
	secret      string // empty: the bench's
	deliver     string // names of destinations; empty: it is stored only
}

// configuration is the smallest one that measures the gateway. `secrets` is the
// folder of the secrets' files.
func configuration(data, shm, listen, admin, secrets, more string, sources []source) string {
	var b strings.Builder
	fmt.Fprintf(&b, "data_dir: %s\nshm_dir: %s\nworkers: 1\nlisteners:\n%s", data, shm, listen)
	fmt.Fprintf(&b, "admin:\n  http: %s\n%ssources:\n", admin, more)
	for _, s := range sources {
		proof := s.proof
		if proof == "" {
			proof = "    provider: github\n"
		}
		fmt.Fprintf(&b, "  %s:\n    path: /hooks/%s\n%s", s.name, s.name, proof)
		fmt.Fprintf(&b, "    secrets: [\"file:%s\"]\n    acknowledge: %s\n",
			filepath.Join(secrets, s.name+".secret"), s.acknowledge)
		if s.priority != "" {
			fmt.Fprintf(&b, "    priority: %s\n", s.priority)
		}
		fmt.Fprintf(&b, "    deliver: [%s]\n", s.deliver)
	}
	return b.String()
}

// gateway is a running sluice: its daemon, and the data plane that the daemon has started.
type gateway struct {
	o       options
	base    string // http://HOST:PORT of its senders
	secure  string // https://HOST:PORT of them; empty: there is no certificate
	metrics string // address of /metrics
	config  string // its configuration file
	admin   string
	shm     string
	args    []string
	log     *os.File
	cmd     *exec.Cmd
}

// startSluice runs the daemon on an empty data directory and waits until it is ready. `more` is
// further configuration; args are further arguments of `sluice run`.
func startSluice(
	o options, dir, more string, sources []source, args ...string,
) (*gateway, error) {
	return startListening(o, dir, more, nil, sources, args...)
}

// startListening is startSluice with a second listener, where there is a certificate for it.
func startListening(
	o options, dir, more string, c *certificate, sources []source, args ...string,
) (*gateway, error) {
	for _, name := range []string{"sluice", "sluice-dataplane"} {
		if _, err := os.Stat(filepath.Join(o.bin, name)); err != nil {
			return nil, fmt.Errorf("%w: %s is not built", errLeftOut, filepath.Join(o.bin, name))
		}
	}
	addresses, err := freeAddresses(3)
	if err != nil {
		return nil, err
	}
	shm, err := os.MkdirTemp(memoryFolder(), "sluice-bench-")
	if err != nil {
		return nil, err
	}
	g := &gateway{
		o: o, base: "http://" + addresses[0], admin: "http://" + addresses[1],
		config: filepath.Join(dir, "sluice.yaml"), shm: shm, args: args,
	}
	g.metrics = g.admin + "/metrics"
	listen := "  - address: " + addresses[0] + "\n"
	if c != nil {
		g.secure = "https://" + addresses[2]
		listen += "  - address: " + addresses[2] + "\n    tls: {certificates: [{cert: " + c.cert +
			", key: " + c.key + "}]}\n"
	}
	files := map[string]string{
		g.config: configuration(filepath.Join(dir, "data"), shm, listen, addresses[1], dir, more,
			sources),
	}
	for _, s := range sources {
		files[filepath.Join(dir, s.name+".secret")] = s.secret
		if s.secret == "" {
			files[filepath.Join(dir, s.name+".secret")] = secret
		}
	}
	for name, content := range files {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	if g.log, err = os.Create(filepath.Join(dir, "sluice.log")); err != nil {
		return nil, err
	}
	if err := g.launch(); err != nil {
		g.stop()
		tail, _ := os.ReadFile(g.log.Name())
		return nil, fmt.Errorf("%w; its log ends:\n%s", err, lastLines(tail, 15))
	}
	return g, nil
}

// launch starts the daemon and waits until it is ready.
func (g *gateway) launch() error {
	args := append([]string{"run", "--config", g.config}, g.args...)
	g.cmd = command(g.o, 0, filepath.Join(g.o.bin, "sluice"), args...)
	g.cmd.Stdout, g.cmd.Stderr = g.log, g.log
	if err := g.cmd.Start(); err != nil {
		g.cmd = nil
		return err
	}
	return waitReady(g.admin + "/readyz")
}

func (g *gateway) stop() {
	if g.cmd != nil {
		end(g.cmd)
		for _, plane := range g.planes() {
			_ = syscall.Kill(plane.PID, syscall.SIGKILL) // it has outlived its supervisor
		}
	}
	_ = g.log.Close()
	_ = os.RemoveAll(g.shm)
}

// planes are the data planes that work in its folder. After a restart of the daemon they are
// nobody's children.
func (g *gateway) planes() []referee.Process {
	var found []referee.Process
	for _, p := range referee.Processes() {
		if !strings.HasPrefix(p.Name, "sluice-data") {
			continue
		}
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if strings.Contains(string(line), "--shm\x00"+g.shm+"/") {
			found = append(found, p)
		}
	}
	return found
}

func (g *gateway) signal(s syscall.Signal) error { return g.cmd.Process.Signal(s) }

// restart kills the daemon, and only it, and starts it again: it takes the living data plane over.
func (g *gateway) restart() error {
	if err := g.signal(syscall.SIGKILL); err != nil {
		return err
	}
	_ = g.cmd.Wait() // it was killed, and says so
	return g.launch()
}

// parts are its processes by what they do.
func (g *gateway) parts() map[string]referee.Process {
	found := map[string]referee.Process{}
	if p, err := referee.ReadProcess(g.cmd.Process.Pid); err == nil {
		found["control"] = p
	}
	for _, p := range g.planes() {
		found["dataplane"] = p
	}
	return found
}

// run asks the command line of the running daemon.
func (g *gateway) run(args ...string) ([]byte, error) {
	cmd := exec.Command(filepath.Join(g.o.bin, "sluice"), append(args, "--config", g.config)...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("sluice %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// setStore puts a synthetic store, SLOTSxTIME, in front of the journal.
func (g *gateway) setStore(text string) error { return g.setFault("slots", text) }

// setFault slows the journal's writes down.
func (g *gateway) setFault(kind, argument string) error {
	_, err := g.run("fault", "set", "journal.write", kind, argument)
	return err
}
