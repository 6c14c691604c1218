package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// sink is the fast destination: it reads a request and answers at once.
type sink struct{}

func (sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"ok":true}`)
}

// newProxy passes every request straight on: what a sender's request costs without a gateway that
// keeps it.
func newProxy(to string, connections int) (http.Handler, error) {
	goal, err := url.Parse(to)
	if err != nil || goal.Host == "" {
		return nil, errors.New("--url: no URL to pass requests on to")
	}
	proxy := httputil.NewSingleHostReverseProxy(goal)
	proxy.Transport = transport(connections)
	return proxy, nil
}

func transport(connections int) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = connections, connections
	t.DisableCompression = true
	return t
}

// timing is what a client written by hand needed.
type timing struct {
	Count int     `json:"count"`
	PerS  float64 `json:"per_s"`
	CPUS  float64 `json:"cpu_s"`
}

// measure runs work count times on several goroutines and tells how long that took.
func measure(count, workers int, work func(i int) error) (timing, error) {
	var next atomic.Int64
	var group sync.WaitGroup
	failed := make(chan error, workers)
	began, before := time.Now(), processorTime()
	for range workers {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(count); i = next.Add(1) - 1 {
				if err := work(int(i)); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(failed)
	if err := <-failed; err != nil {
		return timing{}, err
	}
	return timing{
		Count: count, PerS: float64(count) / time.Since(began).Seconds(),
		CPUS: (processorTime() - before).Seconds(),
	}, nil
}

func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// post sends count bodies to a URL with the standard library's client, as a worker written by hand
// does, and prints how fast that was.
func post(ctx context.Context, out io.Writer, o options) error {
	client := &http.Client{Transport: transport(o.pool), Timeout: 10 * time.Second}
	body := bytes.Repeat([]byte("x"), o.bytes)
	t, err := measure(o.count, o.pool, func(i int) error {
		r, err := http.NewRequestWithContext(ctx, "POST", o.url, bytes.NewReader(body))
		if err != nil {
			return err
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", fmt.Sprintf("by-hand-%d", i))
		answer, err := client.Do(r)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
		if answer.StatusCode/100 != 2 {
			return fmt.Errorf("answered %s", answer.Status)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(t)
}
