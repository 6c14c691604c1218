package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/go/internal/dataplane"
	"sluice/go/internal/dataplane/fakeplane"
	"sluice/go/internal/lane"
	"sluice/go/internal/listen"
	pb "sluice/proto/sluice/v1"
)

func TestMain(m *testing.M) {
	control()
	fakeplane.Main()
	os.Exit(m.Run())
}

var journalID = [16]byte{0x5a, 15: 0xa5}

// bed is what a supervisor lies in: a directory, ports that take notes, and the processes it made.
type bed struct {
	t    *testing.T
	dir  string
	port *port

	snapshot atomic.Pointer[pb.Snapshot]
	opened   int // listening sockets
	binary   string
	settings dataplane.Settings
	plan     listen.Plan // what the config wants; one port of the kernel's choice if empty
	newest   atomic.Uint32
	// meanwhile happens once, when somebody asks for the snapshot.
	meanwhile atomic.Pointer[func()]
	shared    [][]*os.File // sockets of spawned data planes
}

// port is both ends of the supervisor: lanes and counters.
type port struct {
	mu       sync.Mutex
	served   map[uint32][][]byte
	bells    map[uint32][]*lane.Bell // duplicates of the first worker's two
	orphaned []uint32
	orphans  int
	born     []uint32
	died     []uint32
	refuse   error
}

// settings are those of every bed.
var settings = dataplane.Settings{RingSize: 1 << 20, MaxConnections: 64}

func newPort() *port {
	return &port{served: make(map[uint32][][]byte), bells: make(map[uint32][]*lane.Bell)}
}

func newBed(t *testing.T, faults ...string) *bed {
	t.Helper()
	b := newBareBed(t)
	t.Setenv(fakeplane.Env(faults...))
	t.Setenv("GORACE", "atexit_sleep_ms=0") // for the data planes, which are race builds as well
	return b
}

// newBareBed leaves it to the caller what data planes do.
func newBareBed(t *testing.T) *bed {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "sluice-test-")
	if err != nil {
		dir = t.TempDir()
	}
	b := &bed{t: t, dir: dir, binary: os.Args[0], port: newPort(), settings: settings,
		plan: planFor("127.0.0.1:0")}
	for _, sub := range []string{"dp", "lanes"} {
		must(t, os.MkdirAll(filepath.Join(dir, sub), 0o700))
	}
	control, err := lane.OpenControl(filepath.Join(dir, "control"), journalID)
	must(t, err)
	control.StoreWritable(1)
	control.Close()
	b.config(1)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return b
}

func (b *bed) config(version uint32) { b.snapshot.Store(snapshot(version)) }

func snapshot(version uint32) *pb.Snapshot {
	const second = 1_000_000_000
	return &pb.Snapshot{ConfigVersion: version, Http: &pb.HttpBounds{
		MaxHeader: 16 << 10, MaxBody: 64 << 10, HeaderTimeoutNs: second, BodyTimeoutNs: second,
		IdleTimeoutNs: second, MaxConnections: 64,
	}}
}

// supervisor makes one over what lies in the directory.
func (b *bed) supervisor() *Supervisor {
	return New(Options{
		Binary: b.binary, Version: "test", Dir: b.dir, JournalID: journalID,
		Settings: func() dataplane.Settings { return b.settings },
		Lanes:    b.port, Open: b.open, Bells: bells,
		Snapshot: func([]string) *pb.Snapshot {
			if meanwhile := b.meanwhile.Swap(nil); meanwhile != nil {
				(*meanwhile)()
			}
			return b.snapshot.Load()
		},
		Born: b.port.bornNow, Died: b.port.diedNow, Newest: b.newest.Store,
		Log: slog.New(slog.DiscardHandler),
	})
}

// start makes a supervisor that runs, and ends it with its data plane.
func (b *bed) start() *Supervisor {
	b.t.Helper()
	s := b.supervisor()
	must(b.t, s.Start(context.Background()))
	b.t.Cleanup(func() {
		select {
		case <-s.stop:
		default:
			_ = s.Drain(context.Background(), 0)
			s.Stop()
		}
	})
	return s
}

// open opens what the plan has beside what there is.
func (b *bed) open(ctx context.Context, have [][]*os.File) (*Sockets, error) {
	plan := b.plan
	plan.Have = have
	set, err := plan.Open(ctx)
	if err != nil {
		return nil, err
	}
	b.opened += len(set.Opened)
	sockets := &Sockets{Set: set}
	for _, spec := range set.Spec {
		sockets.Names = append(sockets.Names, plan.Specs[spec].String())
	}
	return sockets, nil
}

func bells(count int) ([]*os.File, error) {
	var files []*os.File
	for range count {
		bell, err := lane.NewBell()
		if err != nil {
			return nil, err
		}
		files = append(files, bell.File())
	}
	return files, nil
}

// spawn starts a data plane as an earlier life did; version 0 gives it no config.
func (b *bed) spawn(number, version uint32) *dataplane.Process {
	b.t.Helper()
	if b.shared == nil { // generations have the same ones
		sockets, err := b.open(context.Background(), nil)
		must(b.t, err)
		b.shared = sockets.Rows
		b.t.Cleanup(dataplane.Fds{Listeners: b.shared}.Close)
	}
	files, err := bells(2)
	must(b.t, err)
	fds := dataplane.Fds{RequestBells: files[:1], ReplyBells: files[1:]}
	defer fds.Close()
	fds.Listeners = b.shared
	program, err := dataplane.OpenProgram(b.binary)
	must(b.t, err)
	defer program.Close()
	p, err := dataplane.Start(dataplane.Spec{
		Program: program, Dir: b.dir, JournalID: journalID, Generation: number,
		Settings: b.settings, Fds: fds,
	})
	must(b.t, err)
	b.t.Cleanup(func() {
		p.Kill()
		<-p.Done()
	})
	client, err := dataplane.Dial(filepath.Join(b.dir, "dp", fmt.Sprintf("%d.sock", number)))
	must(b.t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, err = client.Hello(ctx, journalID)
	must(b.t, err)
	if version > 0 {
		must(b.t, client.Apply(ctx, snapshot(version)))
	}
	return p
}

// left are the files of data planes.
func (b *bed) left() []string {
	b.t.Helper()
	entries, err := os.ReadDir(filepath.Join(b.dir, "dp"))
	must(b.t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// balanced checks that each generation that was born died once.
func (b *bed) balanced() {
	b.t.Helper()
	b.port.mu.Lock()
	defer b.port.mu.Unlock()
	born, died := slices.Sorted(slices.Values(b.port.born)), slices.Sorted(slices.Values(b.port.died))
	if !slices.Equal(born, died) || len(slices.Compact(died)) != len(b.port.born) {
		b.t.Errorf("born %v, died %v", b.port.born, b.port.died)
	}
}

func (p *port) Serve(generation uint32, ids [][]byte, fds dataplane.Fds) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil {
		return p.refuse
	}
	p.served[generation] = ids
	for _, files := range [][]*os.File{fds.RequestBells, fds.ReplyBells} {
		bell, err := lane.DuplicateBell(files[0])
		if err != nil {
			return err
		}
		p.bells[generation] = append(p.bells[generation], bell)
	}
	return nil
}

func (p *port) Orphaned(generation uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orphaned = append(p.orphaned, generation)
}

func (p *port) Orphans() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.orphans
}

func (p *port) set(change func(*port)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

func (p *port) isOrphaned(generation uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.orphaned, generation)
}

func (p *port) bornNow(generation uint32, counters string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := os.Stat(counters); err != nil {
		panic(fmt.Sprintf("generation %d was born without counters: %v", generation, err))
	}
	p.born = append(p.born, generation)
}

func (p *port) diedNow(generation uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.died = append(p.died, generation)
}

// patience bounds every wait for a condition; it is reached by broken programs only.
const patience = 30 * time.Second

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// alive tells whether a process runs; one that is dead and not reaped does not.
func alive(pid int) bool {
	s := state(pid)
	return s != 0 && s != 'Z' && s != 'X'
}

// state is the letter that the kernel shows for a process; 0: there is none.
func state(pid int) byte {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	if _, rest, ok := strings.Cut(string(stat), ") "); ok {
		return rest[0]
	}
	return 0
}

func kill(t testing.TB, pid int, signal unix.Signal) {
	t.Helper()
	must(t, unix.Kill(pid, signal))
}

// accepting waits for a generation that accepts.
func accepting(t testing.TB, s *Supervisor, generation uint32) Status {
	t.Helper()
	var st Status
	eventually(t, fmt.Sprintf("generation %d accepts", generation), func() bool {
		st = s.Status()
		return st.Accepting && st.Generation == generation
	})
	return st
}
