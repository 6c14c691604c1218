package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// crowd is senders that keep connections and do little with them, in a process of their own: what
// they cost this one would else look like the server's.
type crowd struct {
	Address string
	Idle    int           // one in two after a request, the others having sent nothing
	Slow    int           // a byte a second, one in two of them within the head
	Spread  time.Duration // in which the slow ones come for the first time

	halt    chan struct{}
	tooSlow atomic.Int64 // answers of 408

	mu     sync.Mutex
	idle   []net.Conn
	faults []string // what no such sender may see
}

// crowdVariable tells this program that it is a crowd and nothing else. It lasts until its standard
// input ends.
const crowdVariable = "SLUICE_E2E_CROWD"

// dispersed is what a crowd says at its end.
type dispersed struct {
	TooSlow int
	Faults  []string
}

// gathered is a crowd that is there, seen from the test.
type gathered struct {
	t     testing.TB
	ended func() (dispersed, error)
}

// gather starts a crowd.
func gather(t testing.TB, c *crowd) *gathered {
	t.Helper()
	program, err := os.Executable()
	must(t, err)
	text, err := json.Marshal(c)
	must(t, err)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), crowdVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	must(t, err)
	output, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	g := &gathered{t: t, ended: sync.OnceValues(func() (end dispersed, err error) {
		_ = input.Close() // it may have ended already
		err = json.NewDecoder(output).Decode(&end)
		if waitErr := cmd.Wait(); err == nil {
			err = waitErr
		}
		return end, err
	})}
	t.Cleanup(func() { _, _ = g.ended() })
	return g
}

// disperse ends the crowd and tells how many answers of 408 it got.
func (g *gathered) disperse() int {
	g.t.Helper()
	end, err := g.ended()
	must(g.t, err)
	for n, text := range end.Faults {
		if n < faultsShown {
			g.t.Errorf("in the crowd: %s (%d such)", text, len(end.Faults))
		}
	}
	return end.TooSlow
}

func init() {
	text := os.Getenv(crowdVariable)
	if text == "" {
		return
	}
	c := &crowd{halt: make(chan struct{})}
	if err := json.Unmarshal([]byte(text), c); err != nil {
		fmt.Fprintln(os.Stderr, "crowd:", err)
		os.Exit(1)
	}
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19) // the server's and the load's time first
	_ = json.NewEncoder(os.Stdout).Encode(c.run())
	os.Exit(0)
}

// run is the crowd's life.
func (c *crowd) run() dispersed {
	var senders sync.WaitGroup
	numbers := make([]int, c.Idle)
	for k := range numbers {
		numbers[k] = k
	}
	each(numbers, c.rest)
	for k := range c.Slow {
		senders.Go(func() { c.dawdle(k) })
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	close(c.halt)
	senders.Wait()
	for _, conn := range c.idle {
		_ = conn.Close()
	}
	return dispersed{int(c.tooSlow.Load()), c.faults}
}

func (c *crowd) fault(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, err.Error())
}

// rest opens a connection that waits.
func (c *crowd) rest(k int) {
	conn, err := connectFrom(k, c.Address)
	if err == nil && k%2 == 0 {
		var a *answer
		w := &wire{conn, bufio.NewReader(conn)}
		a, err = w.exchange(request{path: "/hooks/ring", body: "{}"})
		if err == nil && a.code != 200 {
			err = fmt.Errorf("%v", a)
		}
	}
	if err != nil {
		c.fault(fmt.Errorf("idle connection %d: %w", k, err))
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = append(c.idle, conn)
}

// dawdle sends a byte a second; when that was answered it comes again.
func (c *crowd) dawdle(k int) {
	select {
	case <-c.halt:
	case <-time.After(c.Spread * time.Duration(k) / time.Duration(c.Slow)):
	}
	for {
		select {
		case <-c.halt:
			return
		default:
		}
		if err := c.dawdleOnce(k); err != nil {
			c.fault(fmt.Errorf("slow sender %d: %w", k, err))
			return
		}
	}
}

func (c *crowd) dawdleOnce(k int) error {
	conn, err := connectFrom(k, c.Address)
	if err != nil {
		return err
	}
	defer conn.Close()
	text := request{path: "/hooks/open", body: strings.Repeat("x", 1000)}.bytes()
	at := 1
	if k%2 == 0 { // in the body
		at = strings.Index(text, "\r\n\r\n") + 4
	}
	w := &wire{conn, bufio.NewReader(conn)}
	if err := w.write(text[:at]); err != nil {
		return err
	}
	over := make(chan error, 1)
	go func() {
		a, err := w.read("")
		switch {
		case err != nil:
		case a.code != 408 || !a.closes():
			err = fmt.Errorf("a byte a second got %v", a)
		default:
			c.tooSlow.Add(1)
		}
		over <- err
	}()
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-c.halt:
			_ = conn.Close()
			<-over
			return nil
		case err := <-over:
			return err
		case <-second.C:
			_ = w.write(text[at : at+1]) // an error: the answer is here already
			at++
		}
	}
}

// connectFrom connects from one of several loopback addresses: each has ports of its own.
func connectFrom(n int, address string) (net.Conn, error) {
	from := &net.TCPAddr{IP: net.IPv4(127, 0, 1, byte(1+n%8))}
	d := net.Dialer{Timeout: patience, LocalAddr: from}
	return d.Dial("tcp", address)
}
