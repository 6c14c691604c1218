package main

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sluice/bench/referee"
)

const (
	secret     = "a secret for the bench"
	readyAfter = 30 * time.Second
	stopAfter  = 20 * time.Second
)

// errLeftOut marks a row that this machine cannot measure.
var errLeftOut = errors.New("not measured here")

// subject is a running server under test.
type subject struct {
	url     string // where hooks go; of several sources, the first one's
	metrics string // address of /metrics; peers have none
	usage   func() (usage, error)
	stop    func()
}

func start(o options, k key, dir string) (*subject, error) {
	switch k.subject {
	case "ring", "durable":
		g, err := startSluice(o, dir, "", []source{{name: "github", acknowledge: k.subject}})
		if err != nil {
			return nil, err
		}
		return &subject{
			url: g.base + "/hooks/github", metrics: g.metrics, stop: g.stop,
			usage: func() (usage, error) { return sluiceUsage(g.cmd.Process.Pid, g.metrics) },
		}, nil
	case "nethttp-postgres", "nethttp-copy":
		if o.postgres == "" {
			return nil, fmt.Errorf("%w: no --postgres URL", errLeftOut)
		}
	}
	p, err := launchPeer(o, k.subject, dir)
	if err != nil {
		return nil, err
	}
	read := func() (usage, error) {
		u, err := peerUsage(p.cmd.Process.Pid)
		if err == nil && (k.subject == "nethttp-postgres" || k.subject == "nethttp-copy") {
			u["store"] = referee.UsageOf("postgres")
		}
		return u, err
	}
	return &subject{url: p.base + "/hooks/github", usage: read, stop: p.stop}, nil
}

// peer is a running peer.
type peer struct {
	cmd   *exec.Cmd
	base  string // http://HOST:PORT
	stdin io.WriteCloser
}

func launchPeer(o options, mode, dir string, args ...string) (*peer, error) {
	return launchPeerOn(o, 0, mode, dir, args...)
}

func launchPeerOn(o options, cpu int, mode, dir string, args ...string) (*peer, error) {
	args = append([]string{mode, "--secret", secret, "--file", filepath.Join(dir, "peer.log"),
		"--postgres", o.postgres}, args...)
	p := &peer{cmd: command(o, cpu, o.peers, args...)}
	p.cmd.Stderr = os.Stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	address, found := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !found {
		p.stop()
		return nil, fmt.Errorf("%s did not start: %q, %w", mode, line, err)
	}
	p.base = "http://" + address
	return p, nil
}

func (p *peer) stop() { end(p.cmd) }

// used is its CPU seconds so far.
func (p *peer) used() float64 {
	u, _ := peerUsage(p.cmd.Process.Pid)
	return u.total()
}

// end asks a process to stop and, after a while, makes it.
func end(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(stopAfter, func() { _ = cmd.Process.Kill() })
	_ = cmd.Wait()
	timer.Stop()
}

func waitReady(url string) error {
	client := http.Client{Timeout: time.Second}
	last := errors.New("not asked")
	for deadline := time.Now().Add(readyAfter); time.Now().Before(deadline); {
		answer, err := client.Get(url)
		if err == nil {
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(answer.Status)
		}
		last = err
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("sluice was not ready after %s: %w", readyAfter, last)
}

// freeAddresses finds unused ports outside the range from which outgoing connections take theirs:
// none of the generator's may sit on one when a daemon comes back.
func freeAddresses(count int) ([]string, error) {
	var addresses []string
	for range 1000 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(20000)))
		if err != nil {
			continue
		}
		defer l.Close()
		if addresses = append(addresses, l.Addr().String()); len(addresses) == count {
			return addresses, nil
		}
	}
	return nil, errors.New("no free port")
}

// memoryFolder is where tmpfs is mounted on Linux; elsewhere the lanes would hit a disk.
func memoryFolder() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		return "/dev/shm"
	}
	return os.TempDir()
}

// scrape reads the metrics that it is asked for; one that is missing is missing in the answer.
func scrape(url string, names ...string) map[string]float64 {
	found := map[string]float64{}
	if url == "" {
		return found
	}
	// A daemon that was stopped on purpose must not stop who watches it.
	client := http.Client{Timeout: lookEvery / 2}
	answer, err := client.Get(url)
	if err != nil {
		return found
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(io.LimitReader(answer.Body, 16<<20))
	if err != nil {
		return found
	}
	for line := range strings.Lines(string(data)) {
		for _, name := range names {
			rest, ok := strings.CutPrefix(line, name)
			if !ok || rest == "" || (rest[0] != ' ' && rest[0] != '{') {
				continue
			}
			var value float64
			text := strings.TrimSpace(rest[strings.LastIndexByte(rest, '}')+1:])
			if _, err := fmt.Sscan(text, &value); err == nil {
				found[name] += value
			}
		}
	}
	return found
}

func sign(body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

func lastLines(text []byte, count int) string {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-count):], []byte("\n")))
}
