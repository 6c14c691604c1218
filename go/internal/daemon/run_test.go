package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/go/internal/admin"
	"sluice/go/internal/config"
	"sluice/go/internal/dataplane/fakeplane"
	"sluice/go/internal/store"
)

func TestMain(m *testing.M) {
	fakeplane.Main()
	os.Exit(m.Run())
}

// patience bounds every wait for a condition; it is reached by broken programs only.
const patience = 40 * time.Second

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// site is the folders of an installation, with a fake data plane.
type site struct {
	t      *testing.T
	shm    string
	data   string
	binary string
	http   string
	run    func(context.Context, Options) error

	mu   sync.Mutex
	text string // of the config, without folders and addresses
}

func newSite(t *testing.T, faults ...string) *site {
	t.Helper()
	shm, err := os.MkdirTemp("/dev/shm", "sluice-test-")
	if err != nil {
		t.Skipf("no tmpfs at /dev/shm: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(shm) })
	s := &site{
		t: t, shm: shm, data: t.TempDir(), binary: filepath.Join(shm, "dataplane"),
		text: sources("a>stdout"), run: Run,
	}
	s.installPlane(faults...)
	return s
}

// installPlane puts a fake data plane with these faults at the path of the program.
func (s *site) installPlane(faults ...string) {
	s.t.Helper()
	name, value := fakeplane.Env(faults...)
	s.install(s.binary, fmt.Sprintf("export %s='%s' GORACE=atexit_sleep_ms=0\nexec '%s' \"$@\"",
		name, value, os.Args[0]))
}

// install puts a script in the place of a program, as a package manager would.
func (s *site) install(path, script string) {
	s.t.Helper()
	must(s.t, os.WriteFile(path+".next", []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	must(s.t, os.Rename(path+".next", path))
}

func (s *site) configure(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = text
}

func (s *site) load() (*config.Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	head := fmt.Sprintf("data_dir: %s\nshm_dir: %s\nworkers: 1\nlisteners: [{address: 127.0.0.1:0}]\n"+
		"admin: {socket: %s/admin.sock, http: '%s'}\n", s.data, s.shm, s.shm, s.http)
	return tryParse(head + s.text)
}

// lanes is the folder of the lanes, made before the first start if need be.
func (s *site) lanes(id [16]byte) string {
	s.t.Helper()
	dir := filepath.Join(s.shm, fmt.Sprintf("%x", id), "lanes")
	must(s.t, os.MkdirAll(dir, 0o700))
	return dir
}

// run is a daemon that runs.
type run struct {
	*Daemon
	t       *testing.T
	ended   chan error
	serving chan *Daemon
}

// start runs a daemon until it is ready.
func (s *site) start() *run {
	s.t.Helper()
	r, err := s.try()
	must(s.t, err)
	return r
}

func (s *site) try() (*run, error) {
	s.t.Helper()
	c, err := s.load()
	must(s.t, err)
	r := &run{t: s.t, ended: make(chan error, 1), serving: make(chan *Daemon, 1)}
	go func() {
		r.ended <- s.run(context.Background(), Options{
			Config: c, Load: s.load, Binary: s.binary, Stdout: io.Discard, Log: discard,
			Ready: func(d *Daemon) { r.serving <- d }, Version: "test",
		})
	}()
	select {
	case err := <-r.ended:
		if err == nil {
			err = errors.New("ended before it was ready")
		}
		return nil, err
	case r.Daemon = <-r.serving:
	}
	s.t.Cleanup(func() {
		if r.ended != nil {
			r.stop()
		}
	})
	return r, nil
}

func (r *run) stop() {
	r.t.Helper()
	r.Drain()
	select {
	case err := <-r.ended:
		must(r.t, err)
	case <-time.After(patience):
		r.t.Fatal("it does not stop")
	}
	r.ended = nil
}

// working lists goroutines that run our code, other than tests.
func working() []string {
	buffer := make([]byte, 4<<20)
	var found []string
	for _, stack := range bytes.Split(buffer[:runtime.Stack(buffer, true)], []byte("\n\n")) {
		if bytes.Contains(stack, []byte("sluice/go/internal/")) &&
			!bytes.Contains(stack, []byte("testing.tRunner")) &&
			!bytes.Contains(stack, []byte("testing.(*M).Run")) {
			found = append(found, string(stack))
		}
	}
	return found
}

func TestStartAndStopLeaveNothingBehind(t *testing.T) {
	s := newSite(t)
	r := s.start()
	id, pid := r.store.Recovery().JournalID, r.super.Status().Pid
	if why := r.whyNotReady(); len(why) != 0 || len(r.Listeners()) != 1 {
		t.Errorf("ready, but %v; listeners %v", why, r.Listeners())
	}
	if facts := r.adminFacts(); facts.DataPlane.Pid != uint32(pid) || facts.ConfigVersion != 1 ||
		facts.Admission.Limit == 0 {
		t.Errorf("facts %+v", facts)
	}
	r.stop()
	if why := r.whyNotReady(); len(why) == 0 {
		t.Error("a daemon that ended is ready")
	}
	if err := unix.Kill(pid, 0); !errors.Is(err, unix.ESRCH) {
		t.Errorf("the data plane: %v", err)
	}
	for _, dir := range []string{"lanes", "dp"} {
		entries, err := os.ReadDir(filepath.Join(s.shm, fmt.Sprintf("%x", id), dir))
		if err != nil || len(entries) != 0 {
			t.Errorf("%s holds %v: %v", dir, entries, err)
		}
	}
	var left []string
	eventually(t, "all goroutines ended", func() bool {
		left = working()
		return len(left) == 0
	})
	// And it can be done again, under the same names.
	again := s.start()
	if got := again.store.Recovery().JournalID; got != id {
		t.Errorf("journal %x became %x", id, got)
	}
	if version := again.plan.Load().catalogue.ConfigVersion; version != 2 {
		t.Errorf("config %d at the second start", version)
	}
	again.stop()
}

func TestASecondDaemonIsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.start()
	if _, err := s.try(); !errors.Is(err, store.ErrLocked) {
		t.Errorf("a second one: %v", err)
	}
	if why := r.whyNotReady(); len(why) != 0 {
		t.Errorf("the first one suffers: %v", why)
	}
	r.stop()
}

func TestADataPlaneThatDoesNotStartIsToldAndNothingStays(t *testing.T) {
	t.Parallel()
	s := newSite(t, fakeplane.Dies)
	_, err := s.try()
	if err == nil || !strings.Contains(err.Error(), "ended before it was ready") {
		t.Errorf("run: %v", err)
	}
	if exists(filepath.Join(s.shm, "admin.sock")) {
		t.Error("the admin socket stays")
	}
}

func TestForeignAndStaleLanesAtAStart(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.start()
	id := r.store.Recovery().JournalID
	r.stop()
	stale, _ := laneFile(t, s.lanes(id), 3, nil) // of a boot that this host never had
	s.start().stop()
	if exists(stale) || !exists(stale+".aside") {
		t.Error("a lane of another boot was not set aside")
	}
	foreign, _ := laneFile(t, s.lanes(id), 4, func(p []byte) { p[8] ^= 1 })
	_, err := s.try()
	if !errors.Is(err, errForeignLane) || !strings.Contains(err.Error(), "start that version once") ||
		!strings.Contains(err.Error(), foreign) {
		t.Errorf("run: %v", err)
	}
	must(t, os.Remove(foreign))
	s.start().stop()
}

// Whoever looks at the daemon while it stops must find what he looks at, to the end.
func TestItIsLookedAtUntilTheEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.http = freeAddress(t)
	r := s.start()
	var looking sync.WaitGroup
	for _, page := range []string{"/metrics", "/readyz"} {
		looking.Go(func() {
			looks := 0
			for {
				answer, err := http.Get("http://" + s.http + page)
				if err != nil {
					break // it ended
				}
				looks++
				_, _ = io.Copy(io.Discard, answer.Body)
				_ = answer.Body.Close()
			}
			if looks == 0 {
				t.Errorf("%s was never seen", page)
			}
		})
	}
	eventually(t, "a beat", func() bool { return r.shm.control.CPBeat() > 0 })
	r.stop()
	looking.Wait()
}

func TestAReloadPutsSourcesInForce(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.start()
	s.configure(sources("a>stdout", "b>stdout"))
	version, err := r.Reload(t.Context())
	if err != nil || version != 2 {
		t.Fatalf("reload: %d, %v", version, err)
	}
	if p := r.plan.Load(); numbers(p)["b"] == 0 || p.catalogue.ConfigVersion != 2 {
		t.Errorf("numbers %v", numbers(p))
	}
	s.configure("sources: {a: {path: nonsense}}")
	if _, err := r.Reload(t.Context()); !errors.Is(err, admin.ErrRefused) {
		t.Errorf("a wrong config: %v", err)
	}
	s.configure(sources("a"))
	s.http = freeAddress(t)
	if _, err := r.Reload(t.Context()); !errors.Is(err, admin.ErrRefused) ||
		!strings.Contains(err.Error(), "admin.http") {
		t.Errorf("a key that needs a restart: %v", err)
	}
	if got := r.plan.Load().catalogue.ConfigVersion; got != 2 {
		t.Errorf("config %d in force", got)
	}
	r.stop()
	if _, err := r.Reload(t.Context()); err == nil {
		t.Error("a daemon that ended took a config")
	}
}

func TestARefusedReloadLeavesTheOldConfigAndUsesNoNumberTwice(t *testing.T) {
	t.Parallel()
	s := newSite(t, fakeplane.RefusesNext)
	r := s.start()
	before := r.plan.Load()
	for _, name := range []string{"b", "c"} {
		s.configure(sources("a>stdout", name+">stdout"))
		if _, err := r.Reload(t.Context()); !errors.Is(err, admin.ErrRefused) {
			t.Fatalf("reload: %v", err)
		}
	}
	if r.plan.Load() != before {
		t.Error("a refused config is in force")
	}
	names := r.store.Catalogue()
	if b, c := idOf(names.Sources, "b"), idOf(names.Sources, "c"); b == 0 || c == 0 || b == c {
		t.Errorf("b and c have the numbers %d and %d", b, c)
	}
	r.stop()
}

func TestWhileAConfigFollowsAnotherBothAreJudgedBy(t *testing.T) {
	first := planOf(t, nil, sources("a>x", "b>x"))
	second := planOf(t, &first.catalogue, sources("a>y", "c>x"))
	table := both(first.table, second.table)
	a, b, c := numbers(first)["a"], numbers(first)["b"], numbers(second)["c"]
	if len(table.Sources) != 3 || table.Sources[a] != first.table.Sources[a] ||
		table.Sources[b] != first.table.Sources[b] || table.Sources[c] != second.table.Sources[c] {
		t.Errorf("sources %v", table.Sources)
	}
	if len(first.table.Sources) != 2 || len(second.table.Sources) != 2 {
		t.Error("a table in use was changed")
	}
}

func TestADeadDataPlaneIsReplacedAndItsLanesEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := s.start()
	first := r.super.Status()
	must(t, unix.Kill(first.Pid, unix.SIGKILL))
	eventually(t, "another one accepts", func() bool {
		st := r.super.Status()
		return st.Accepting && st.Generation == 2
	})
	eventually(t, "one lane is left", func() bool { return len(r.ingest.Lanes()) == 1 })
	if lanes := r.ingest.Lanes(); lanes[0].Generation != 2 || lanes[0].Orphan {
		t.Errorf("lanes %+v", lanes)
	}
	r.stop()
}

// freeAddress is a loopback address that nobody listens on just now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}
