package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"sluice/bench/referee"
)

// front is what stands in front of the store in a trial.
type front struct {
	name   string
	config string   // sluice's admission block
	peer   []string // arguments of the peer; nil: it is sluice
}

// The first one is judged; the others are there to be compared with.
var fronts = []front{
	{name: "slope"},
	{name: "fixed-64", config: "admission:\n  algorithm: fixed\n  initial_limit: 64\n"},
	{name: "nethttp", peer: []string{"--limit", "0"}},
	{name: "nethttp-64", peer: []string{"--limit", "64"}},
}

func frontOf(name string) (front, bool) {
	for _, f := range fronts {
		if f.name == name {
			return f, true
		}
	}
	return front{}, false
}

func frontNames() []string {
	var names []string
	for _, f := range fronts {
		names = append(names, f.name)
	}
	return names
}

// takes says whether a kind of trial means anything for it.
func (f front) takes(kind string) bool {
	switch kind {
	case kindTiers, kindCrowd:
		return true
	default:
		return f.name == fronts[0].name
	}
}

// stand is a running front with its store.
type stand struct {
	base    string                  // http://HOST:PORT
	metrics string                  // address of /metrics; peers have none
	set     func(text string) error // sets the store to SLOTSxTIME
	parts   func() map[string]referee.Process
	gateway *gateway // nil for a peer
	stop    func()
}

// The proof that the senders of a trial give: GitHub's form, but of a sender that tries again and
// waits for five seconds, as Shopify does.
const ownProof = `    verify:
      signature: header:X-Hub-Signature-256
      algorithm: hmac-sha256
      encoding: hex
      prefix: "sha256="
      content: [body]
    id_from: header:X-GitHub-Delivery
    deadline: 5s
`

// The senders of kind=probes: one tests with wrong signatures, one asks for its challenge back.
const (
	probeProof = "    provider: discord\n"
	probeKey   = "08fe45b79813a5fcf9965df5b14f6c5d9a8f3ce3796f3a2d8c0e84083bdcfb4e"
	askProof   = "    provider: dropbox\n"
)

// sourcesOf are the sources that sluice is configured with for a trial.
func sourcesOf(t trial) []source {
	var all []source
	for _, s := range t.streams() {
		priority := "default"
		for _, tier := range tiers {
			if tier.name == tierOf(s.source) {
				priority = tier.name
			}
		}
		all = append(all, source{
			name: s.source, acknowledge: "durable", priority: priority, proof: ownProof,
		})
	}
	if t.kind == kindProbes {
		all = append(all,
			source{name: "probe", acknowledge: "durable", priority: "low", proof: probeProof,
				secret: probeKey},
			source{name: "ask", acknowledge: "durable", priority: "low", proof: askProof})
	}
	return all
}

func (f front) start(o options, t trial, dir string) (*stand, error) {
	if f.peer != nil {
		return f.startPeer(o, dir)
	}
	g, err := startSluice(o, dir, f.config, sourcesOf(t), "--dev")
	if err != nil {
		return nil, err
	}
	return &stand{
		base: g.base, metrics: g.metrics, gateway: g, stop: g.stop, parts: g.parts, set: g.setStore,
	}, nil
}

func (f front) startPeer(o options, dir string) (*stand, error) {
	p, err := launchPeer(o, "nethttp-slots", dir, f.peer...)
	if err != nil {
		return nil, err
	}
	return &stand{
		base: p.base,
		stop: p.stop,
		set: func(text string) error {
			_, err := io.WriteString(p.stdin, text+"\n")
			return err
		},
		parts: func() map[string]referee.Process {
			app, err := referee.ReadProcess(p.cmd.Process.Pid)
			if err != nil {
				return nil
			}
			return map[string]referee.Process{"app": app}
		},
	}, nil
}

// generator is a running sluice-load.
type generator struct {
	cmd    *exec.Cmd
	out    strings.Builder
	record string // file
	ledger string // file
	start  time.Time
}

// startGenerator starts one and waits until its clock runs.
func startGenerator(o options, dir, name string, args ...string) (*generator, error) {
	g := &generator{
		record: filepath.Join(dir, name+".record"), ledger: filepath.Join(dir, name+".ledger"),
	}
	args = append([]string{"--json", "--reconnect", "--record", g.record, "--ledger", g.ledger},
		args...)
	g.cmd = command(o, generatorCPU(), o.load, args...)
	g.cmd.Stdout, g.cmd.Stderr = &g.out, os.Stderr
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	for range 1000 {
		var ns int64
		data, _ := os.ReadFile(g.record)
		if _, err := fmt.Sscanf(string(data), "start %d\n", &ns); err == nil {
			g.start = time.Unix(0, ns)
			return g, nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	g.kill()
	return nil, fmt.Errorf("the load generator did not begin")
}

// cpu is the CPU time that it used, once it has ended.
func (g *generator) cpu() time.Duration {
	state := g.cmd.ProcessState
	if state == nil {
		return 0
	}
	return state.UserTime() + state.SystemTime()
}

// kill ends it before its time.
func (g *generator) kill() {
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
}

// result waits for its end and reads its record.
func (g *generator) result() (record, error) {
	// It ends with 1 when nothing at all was answered, which the record shows as well.
	if err := g.cmd.Wait(); err != nil && g.cmd.ProcessState.ExitCode() != 1 {
		return record{}, fmt.Errorf("load generator: %w", err)
	}
	f, err := os.Open(g.record)
	if err != nil {
		return record{}, err
	}
	defer f.Close()
	return readRecord(f)
}
