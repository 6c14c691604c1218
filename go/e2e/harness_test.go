package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "sluice/proto/sluice/v1"
)

// soak tells whether every count runs in full.
var soak = os.Getenv("SLUICE_SOAK") == "1"

// patience bounds every wait for a condition; it is reached by broken programs only.
var patience = time.Duration(count(40, 300)) * time.Second

// count is the number of rounds: few by default.
func count(short, full int) int {
	if soak {
		return full
	}
	return short
}

// program finds a program of the release build.
func program(t testing.TB, name string) string {
	t.Helper()
	if dir := os.Getenv("SLUICE_BIN"); dir != "" {
		return filepath.Join(dir, name)
	}
	at, err := os.Getwd()
	must(t, err)
	for ; at != "/"; at = filepath.Dir(at) {
		path := filepath.Join(at, "bin", name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	t.Fatalf("bin/%s is not built: run `make build`, or name its folder in SLUICE_BIN", name)
	return ""
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// seeded gives a source of randomness and prints its seed.
func seeded(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		must(t, err)
	}
	t.Logf("SLUICE_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// eventually polls a condition until it holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if holds() {
			return
		}
		if time.Now().After(until) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// installation is one data directory with its config, and the processes that serve it.
type installation struct {
	t       testing.TB
	dir     string // config, secrets, log
	data    string
	shm     string
	config  string   // path of the file
	address string   // where senders connect
	more    []string // where else they do, for tests that configure it
	http    string   // metrics and health
	log     string
	env     []string
	prefix  []string   // a command to run the daemon under
	passed  []*os.File // descriptors from 3 on, as systemd passes sockets
	strict  bool       // run without --dev
	sockets string     // path of the admin socket

	mu      sync.Mutex
	control *exec.Cmd
	ended   chan struct{} // closed when control was reaped
}

// install prepares a data directory. The text is the config without what install knows itself:
// folders and addresses.
func install(t testing.TB, text string) *installation {
	t.Helper()
	dir := t.TempDir()
	shm, err := os.MkdirTemp("/dev/shm", "sluice-e2e-")
	must(t, err)
	i := &installation{
		t: t, dir: dir, data: filepath.Join(dir, "data"), shm: shm,
		config: filepath.Join(dir, "sluice.yaml"), log: filepath.Join(dir, "log"),
		sockets: filepath.Join(shm, "admin.sock"), // a path short enough for any temporary folder
		address: freeAddress(t), http: freeAddress(t),
	}
	t.Cleanup(i.clean)
	i.configure(text)
	return i
}

// configure writes the config file anew.
func (i *installation) configure(text string) {
	i.t.Helper()
	head := fmt.Sprintf("data_dir: %s\nshm_dir: %s\nadmin:\n  http: %s\n  socket: %s\n",
		i.data, i.shm, i.http, i.sockets)
	if !strings.Contains(text, "listeners:") {
		head += fmt.Sprintf("listeners:\n  - address: %s\n", i.address)
	}
	if !strings.Contains(text, "workers:") {
		head += "workers: 1\n"
	}
	if !strings.Contains(text, "ring_size:") {
		head += "ring_size: 8MiB\n"
	}
	must(i.t, os.WriteFile(i.config, []byte(head+text), 0o600))
}

// given are the addresses that were handed out; none is given twice.
var given sync.Map

// freeAddress finds a loopback port outside the range from which outgoing connections take theirs,
// so that none of those has it when a daemon comes back.
func freeAddress(t testing.TB) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(20000))
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		must(t, l.Close())
		if _, taken := given.LoadOrStore(address, true); !taken {
			return address
		}
	}
	t.Fatal("no free port")
	return ""
}

// launch starts the control plane without waiting for anything. Arguments go to `sluice run`.
func (i *installation) launch(args ...string) {
	i.t.Helper()
	log, err := os.OpenFile(i.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(i.t, err)
	defer log.Close()
	words := append(append([]string{}, i.prefix...), program(i.t, "sluice"), "run",
		"--config", i.config)
	if !i.strict {
		words = append(words, "--dev")
	}
	words = append(words, args...)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), i.env...)
	cmd.ExtraFiles = i.passed
	must(i.t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // the state says it all
		close(ended)
	}()
	i.mu.Lock()
	defer i.mu.Unlock()
	i.control, i.ended = cmd, ended
}

// start starts the control plane and waits until it is ready.
func (i *installation) start(args ...string) {
	i.t.Helper()
	i.launch(args...)
	i.awaitReady()
}

func (i *installation) awaitReady() {
	i.t.Helper()
	eventually(i.t, "the daemon is ready", func() bool {
		if i.exited() {
			i.t.Fatal("the daemon ended before it was ready")
		}
		return i.readyz() == http.StatusOK
	})
}

// readyz is the status of /readyz, 0 without an answer.
func (i *installation) readyz() int {
	caller := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := caller.Get("http://" + i.http + "/readyz")
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	_ = answer.Body.Close()
	return answer.StatusCode
}

func (i *installation) exited() bool {
	select {
	case <-i.ended:
		return true
	default:
		return false
	}
}

// awaitExit waits for the control plane's end and gives its exit code, -1 after a signal.
func (i *installation) awaitExit() int {
	i.t.Helper()
	select {
	case <-i.ended:
	case <-time.After(patience):
		i.t.Fatal("the control plane does not end")
	}
	return i.control.ProcessState.ExitCode()
}

// signal sends a signal to the control plane.
func (i *installation) signal(s syscall.Signal) {
	i.t.Helper()
	if err := i.control.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		i.t.Fatal(err)
	}
}

// killControl kills the control plane with SIGKILL and waits until it is gone.
func (i *installation) killControl() {
	i.t.Helper()
	i.signal(syscall.SIGKILL)
	i.awaitExit()
}

// planes are the pids of living data planes of this installation, by their command lines.
func (i *installation) planes() []int {
	entries, err := os.ReadDir("/proc")
	must(i.t, err)
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "cmdline"))
		if err != nil {
			continue // it ended meanwhile
		}
		if strings.Contains(string(line), "--shm\x00"+i.shm+"/") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// plane is the pid of the one living data plane.
func (i *installation) plane() int {
	i.t.Helper()
	pids := i.planes()
	if len(pids) != 1 {
		i.t.Fatalf("data planes %v, want one", pids)
	}
	return pids[0]
}

// killPlanes kills every data plane and waits until they are gone.
func (i *installation) killPlanes() {
	i.t.Helper()
	for _, pid := range i.planes() {
		_ = syscall.Kill(pid, syscall.SIGKILL) // ESRCH: it is gone
		eventually(i.t, "the data plane is dead", func() bool { return !alive(pid) })
	}
}

func alive(pid int) bool {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && len(line) > 0 // a zombie has none
}

// killBoth ends everything as a power loss without its loss of memory would.
func (i *installation) killBoth() {
	i.t.Helper()
	i.killControl()
	i.killPlanes()
}

// stop ends the daemon in order.
func (i *installation) stop() {
	i.t.Helper()
	i.signal(syscall.SIGTERM)
	if code := i.awaitExit(); code != 0 {
		i.t.Fatalf("an orderly stop exits with %d", code)
	}
}

func (i *installation) clean() {
	if i.control != nil && !i.exited() {
		_ = i.control.Process.Signal(syscall.SIGCONT)
		_ = i.control.Process.Kill()
		<-i.ended
	}
	for _, pid := range i.planes() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	if i.t.Failed() {
		i.t.Logf("the daemon's log ends:\n%s", i.logTail(40))
	}
	_ = os.RemoveAll(i.shm)
}

func (i *installation) logTail(lines int) string {
	text, _ := os.ReadFile(i.log)
	all := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}

// logged tells whether the daemon's log holds a text.
func (i *installation) logged(text string) bool {
	all, _ := os.ReadFile(i.log)
	return strings.Contains(string(all), text)
}

// ask calls the admin API on a connection of its own: one that is kept would wait before it tries a
// daemon again that came back.
func (i *installation) ask(call func(context.Context, pb.AdminClient) error) {
	i.t.Helper()
	conn, err := grpc.NewClient("unix:"+i.sockets,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	must(i.t, err)
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	must(i.t, call(ctx, pb.NewAdminClient(conn)))
}

func (i *installation) status() (status *pb.Status) {
	i.t.Helper()
	i.ask(func(ctx context.Context, api pb.AdminClient) (err error) {
		status, err = api.GetStatus(ctx, &pb.GetStatusRequest{})
		return err
	})
	return status
}

// events lists all that is stored, newest first.
func (i *installation) events(filter *pb.EventFilter) []*pb.Event {
	i.t.Helper()
	return i.list(&pb.ListEventsRequest{Filter: filter})
}

func (i *installation) list(r *pb.ListEventsRequest) (list []*pb.Event) {
	i.t.Helper()
	i.ask(func(ctx context.Context, api pb.AdminClient) error {
		stream, err := api.ListEvents(ctx, r)
		for err == nil {
			var e *pb.Event
			if e, err = stream.Recv(); err == nil {
				list = append(list, e)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	})
	return list
}

// event shows one stored event.
func (i *installation) event(id string) (detail *pb.EventDetail) {
	i.t.Helper()
	i.ask(func(ctx context.Context, api pb.AdminClient) (err error) {
		detail, err = api.GetEvent(ctx, &pb.GetEventRequest{Id: id})
		return err
	})
	return detail
}

// awaitDelivered waits until nothing is left in a lane and nothing is left to deliver.
func (i *installation) awaitDelivered() {
	i.t.Helper()
	eventually(i.t, "the lanes are drained", i.drained) // a list shows all that is durable
	eventually(i.t, "every event is delivered", func() bool {
		for _, state := range []string{"pending", "retrying"} {
			one := &pb.ListEventsRequest{Filter: &pb.EventFilter{State: state}, Limit: 1}
			if len(i.list(one)) > 0 {
				return false
			}
		}
		return true
	})
}

// drained tells whether nothing lies in the lanes any more.
func (i *installation) drained() bool {
	used := i.metric("webhook_ring_used_bytes")
	for _, v := range used {
		if v != "0" {
			return false
		}
	}
	return len(used) > 0
}

// metric gives the values of a metric, by its labels as they are printed.
func (i *installation) metric(name string) map[string]string {
	i.t.Helper()
	answer, err := http.Get("http://" + i.http + "/metrics")
	must(i.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	must(i.t, err)
	values := map[string]string{}
	for line := range strings.Lines(string(text)) {
		series, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if labels, ok := strings.CutPrefix(series, name); ok && (labels == "" || labels[0] == '{') {
			values[labels] = value
		}
	}
	return values
}

// run runs a command of sluice against this installation.
func (i *installation) run(args ...string) (stdout, stderr string, code int) {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program(i.t, "sluice"), args...)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(append(os.Environ(), "SLUICE_ADMIN=unix:"+i.sockets), i.env...)
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		i.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}
