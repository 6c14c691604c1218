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
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
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
	config  string // sluice's configuration file
	usage   func() (usage, error)
	stop    func()
}

func start(o options, k key, dir string) (*subject, error) {
	switch k.subject {
	case "ring", "durable":
		return startSluice(o, dir, "", []source{{name: "github", acknowledge: k.subject}})
	case "nethttp-postgres":
		if o.postgres == "" {
			return nil, fmt.Errorf("%w: no --postgres URL", errLeftOut)
		}
	}
	return startPeer(o, k.subject, dir)
}

func startPeer(o options, mode, dir string) (*subject, error) {
	cmd := command(o, 0, o.peers, mode, "--secret", secret,
		"--file", filepath.Join(dir, "peer.log"), "--postgres", o.postgres)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := func() { end(cmd) }
	line, err := bufio.NewReader(stdout).ReadString('\n')
	address, found := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !found {
		stop()
		return nil, fmt.Errorf("%s did not start: %q, %w", mode, line, err)
	}
	read := func() (usage, error) {
		u, err := peerUsage(cmd.Process.Pid)
		if err == nil && mode == "nethttp-postgres" {
			u["store"] = postgresUsage()
		}
		return u, err
	}
	return &subject{url: "http://" + address + "/hooks/github", usage: read, stop: stop}, nil
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

// freeAddresses asks the kernel for unused ports.
func freeAddresses(count int) ([]string, error) {
	var addresses []string
	for range count {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		addresses = append(addresses, l.Addr().String())
	}
	return addresses, nil
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
	answer, err := http.Get(url)
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
