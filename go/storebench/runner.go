package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sluice/go/storebench/meter"
)

// postgresVariable is where scripts/with-postgres says how to reach the server.
const postgresVariable = "SLUICE_BENCH_POSTGRES"

// runner has each case measured by a process of its own.
type runner struct {
	o     options
	self  string
	pool  string
	count int
	lock  *os.File
	grace time.Duration // see rowMax
}

func newRunner(o options) (*runner, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return nil, err
	}
	o.dir = dir
	r := &runner{o: o, self: self, pool: filepath.Join(dir, "pool"), grace: rowMax}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	if r.lock, err = os.OpenFile(dir+".lock", os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(r.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("another run uses %s: %w", o.dir, err), r.lock.Close())
	}
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	folders := []string{r.pool}
	if o.profile != "" {
		folders = append(folders, o.profile)
	}
	for _, folder := range folders {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Close removes all that was written.
func (r *runner) Close() error {
	return errors.Join(os.RemoveAll(r.o.dir), r.lock.Close())
}

// measure runs one case. The folder of a store that is filled is what the next case opens.
func (r *runner) measure(ctx context.Context, p planned) (meter.Result, error) {
	c := p.Case
	c.Dir, c.Pool = filepath.Join(r.o.dir, "row"), r.pool
	if c.Subject != "open" {
		if err := errors.Join(os.RemoveAll(c.Dir), os.Mkdir(c.Dir, 0o755)); err != nil {
			return meter.Result{}, err
		}
	}
	if c.Subject != "open-fill" {
		defer os.RemoveAll(c.Dir)
	}
	program, arguments := r.self, []string{"-row"}
	if p.part == "peers" {
		if reason := r.absent(c); reason != "" {
			return meter.Result{}, errors.New(reason)
		}
		program, arguments = r.o.peers, nil
	} else if r.o.profile != "" {
		r.count++
		c.Profile = filepath.Join(r.o.profile,
			fmt.Sprintf("%03d-%s-%d-%d.pprof", r.count, c.Subject, c.Size, c.Group))
	}
	text, err := json.Marshal(c)
	if err != nil {
		return meter.Result{}, err
	}
	if !p.once && c.Events == 0 {
		var stop func()
		ctx, stop = context.WithTimeoutCause(ctx, c.Duration+r.grace,
			fmt.Errorf("it was not over %v after its time", r.grace))
		defer stop()
	}
	var out, faults bytes.Buffer
	child := exec.CommandContext(ctx, program, append(arguments, string(text))...)
	child.Stdout, child.Stderr = &out, &faults
	child.Env = append(os.Environ(), postgresVariable+"="+r.o.postgres)
	err = child.Run()
	if killed(err) && c.Subject == "open-fill" && out.Len() > 0 {
		err = nil // as it should
	}
	if err != nil {
		return meter.Result{}, fmt.Errorf("%w: %s",
			cmp.Or(context.Cause(ctx), err), strings.TrimSpace(faults.String()))
	}
	var result meter.Result
	if err := json.Unmarshal(out.Bytes(), &result); err != nil {
		return meter.Result{}, fmt.Errorf("what the process printed is no result: %w", err)
	}
	return result, nil
}

func (r *runner) absent(c meter.Case) string {
	if _, err := os.Stat(r.o.peers); err != nil {
		return "no " + r.o.peers + "; `make bench-store` builds it"
	}
	if !strings.HasPrefix(c.Subject, "postgres") {
		return ""
	}
	if r.o.postgres == "" {
		return "no Postgres: " + postgresVariable + " is empty"
	}
	if c.Subject == "postgres-insert" && c.Group > insertConnectionsMax {
		return fmt.Sprintf("the server takes %d connections", insertConnectionsMax)
	}
	return ""
}

// killed tells whether a process ended by SIGKILL.
func killed(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
