package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// result is what the generator reports.
type result struct {
	Sent     int            `json:"sent"`
	Unsent   int            `json:"unsent"`
	OK       int            `json:"ok"`
	OKPerS   float64        `json:"ok_per_s"`
	ElapsedS float64        `json:"elapsed_s"`
	Codes    map[string]int `json:"codes"`
	Errors   map[string]int `json:"errors"`
	CPUS     float64        `json:"cpu_s"`
	Latency  struct {
		P50  float64 `json:"p50"`
		P99  float64 `json:"p99"`
		P999 float64 `json:"p999"`
	} `json:"latency_us"`
}

// command builds a command line, on one CPU where pinning is asked for and possible.
func command(o options, cpu int, name string, args ...string) *exec.Cmd {
	if taskset, err := exec.LookPath("taskset"); err == nil && o.pin && runtime.NumCPU() > 1 {
		args = append([]string{"-c", strconv.Itoa(cpu), name}, args...)
		name = taskset
	}
	cmd := exec.Command(name, args...)
	// Whoever kills the bench alone leaves nothing running.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return cmd
}

func generatorCPU() int { return runtime.NumCPU() - 1 }

// generate runs the generator: in a closed loop, or at a rate.
func generate(o options, k key, url string, rate float64, length time.Duration) (result, error) {
	args := []string{
		"--json", "--reconnect", "--connections", strconv.Itoa(k.connections),
		"--body-bytes", strconv.Itoa(k.body), "--duration", length.String(),
		"--secret", secret,
	}
	if rate > 0 {
		args = append(args, "--rate", strconv.FormatFloat(rate, 'f', 0, 64))
	} else {
		args = append(args, "--closed")
	}
	cmd := command(o, generatorCPU(), o.load, append(args, url)...)
	cmd.Stderr = os.Stderr
	data, err := cmd.Output()
	if err != nil {
		return result{}, fmt.Errorf("load generator: %w", err)
	}
	var r result
	if err := json.Unmarshal(data, &r); err != nil {
		return result{}, fmt.Errorf("load generator: %w", err)
	}
	if r.OK == 0 {
		return result{}, fmt.Errorf("no 2xx; answers %v, lost %v", r.Codes, r.Errors)
	}
	return r, nil
}

// crossCheck asks wrk2, where it is installed, for the same latency. Its clock ticks in
// milliseconds and it warms up for 10 s, so it confirms a tail and cannot refine one.
func crossCheck(o options, k key, url string, rate float64) string {
	wrk2, err := exec.LookPath("wrk2")
	if err != nil {
		return ""
	}
	script := filepath.Join(o.dir, "wrk2.lua")
	body := strings.Repeat("x", k.body)
	lua := fmt.Sprintf(`local n, run = 0, %q
function request()
  n = n + 1
  return wrk.format("POST", nil, {["Content-Type"] = "application/json",
    ["X-Hub-Signature-256"] = "sha256=%s",
    ["X-GitHub-Delivery"] = run .. n}, %q)
end
`, fmt.Sprintf("wrk2-%d-", time.Now().UnixNano()), sign([]byte(body)), body)
	if err := os.WriteFile(script, []byte(lua), 0o600); err != nil {
		return err.Error()
	}
	cmd := command(o, generatorCPU(), wrk2, "-t1", "-c", strconv.Itoa(k.connections), "-d35s",
		"-R", strconv.FormatFloat(rate, 'f', 0, 64), "--latency", "-s", script, url)
	out, err := cmd.Output()
	if err != nil {
		return "wrk2: " + err.Error()
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "50.000%") || strings.HasPrefix(line, "99.000%") ||
			strings.HasPrefix(line, "99.900%") || strings.HasPrefix(line, "Requests/sec") ||
			strings.HasPrefix(line, "Non-2xx") {
			found = append(found, strings.Join(strings.Fields(line), " "))
		}
	}
	return "wrk2: " + strings.Join(found, ", ")
}
