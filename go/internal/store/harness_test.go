package store

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"sluice/go/internal/event"
	"sluice/go/internal/store/vfs"
	"sluice/shm-abi/shmabi"
)

// clock is a wall clock that moves when told to, and one that nobody sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
	ran time.Duration
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.ran += d
}

// set moves the wall clock alone, as an operator or a time server does.
func (c *clock) set(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
}

func (c *clock) elapsed() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ran
}

// bench is a store on file systems that can lose power.
type bench struct {
	*Store
	t     testing.TB
	fs    *vfs.Mem
	xfs   *pebblevfs.MemFS
	clock *clock
	opt   Options
	lane  event.LaneID
	at    uint64 // end of the last span
}

var testRoutes = event.Catalogue{
	ConfigVersion: 1,
	Sources:       []event.Named{{ID: 1, Name: "one"}, {ID: 2, Name: "two"}, {ID: 3, Name: "three"}},
	Destinations: []event.Named{
		{ID: 1, Name: "billing"}, {ID: 2, Name: "archive"}, {ID: 3, Name: "spare"},
	},
	Routes: []event.Route{
		{Version: 1, Source: 1, Destinations: []uint32{1}},
		{Version: 2, Source: 2, Destinations: []uint32{1, 2}},
		{Version: 3, Source: 3, Destinations: nil},
	},
}

// describe finds a test's event under the header of its request, and its type in the last letter.
func describe(_ string, f shmabi.Frame, use func(id, kind []byte)) {
	e, err := f.Event()
	if err != nil || e.HeaderCount() == 0 {
		return
	}
	_, id := e.Header(0)
	use(id, id[max(len(id)-1, 0):])
}

func testLog() *slog.Logger {
	level := slog.LevelError + 1
	if os.Getenv("STORE_LOG") != "" {
		level = slog.LevelInfo
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
}

func newBench(t testing.TB, change func(*Options)) *bench {
	t.Helper()
	b := &bench{
		t: t, fs: vfs.NewMem(), xfs: pebblevfs.NewCrashableMem(),
		clock: &clock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)},
		lane:  event.LaneID{1},
	}
	b.must(b.xfs.MkdirAll("data", 0o700))
	root, err := b.xfs.OpenDir("/")
	b.must(err)
	b.must(root.Sync())
	b.opt = Options{
		Dir: "data", Now: b.clock.Now, Log: testLog(), SegmentBytes: 1 << 20,
		LeaseTTL: 100_000 * time.Hour, LockWait: -1, Retention: Retention{MaxAge: -1},
	}
	if change != nil {
		change(&b.opt)
	}
	b.open()
	b.must(b.PutCatalogue(context.Background(), testRoutes))
	t.Cleanup(func() {
		if !b.closed.Load() {
			_ = b.Store.Close()
		}
	})
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) open() {
	b.t.Helper()
	b.opt.FS, b.opt.indexFS, b.opt.elapsed = b.fs, b.xfs, b.clock.elapsed
	s, err := Open(context.Background(), b.opt)
	b.must(err)
	b.Store = s
	b.must(s.Settle(context.Background()))
	if to, ok := s.Recovery().Lanes[b.lane]; ok {
		b.at = to
	}
}

// restart is a clean stop and a start.
func (b *bench) restart() {
	b.t.Helper()
	b.must(b.Store.Close())
	b.open()
}

// crash is a power cut (or, if kill is set, a kill -9) and a start.
func (b *bench) crash(rng *rand.Rand, kill bool) {
	b.t.Helper()
	cut := pebblevfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng}
	if kill {
		cut.UnsyncedDataPercent = 100
	}
	xfs := b.xfs.CrashClone(cut)
	var fs *vfs.Mem
	if kill {
		fs = b.fs.Kill(rng)
	} else {
		fs = b.fs.Crash(rng)
	}
	_ = b.abandon() // it runs into the halted disk, like any process would
	b.fs, b.xfs = fs, xfs
	b.open()
}

// request is what a test says about an event.
type request struct {
	source, route uint32
	key           byte // 0: none
	window        time.Duration
	order         uint64
	ack           shmabi.Ack
	received      time.Time // zero: now
	body          string
}

func (b *bench) frame(r request) shmabi.Frame {
	b.t.Helper()
	if r.received.IsZero() {
		r.received = b.clock.Now()
	}
	f, err := shmabi.BuildEvent(shmabi.EventParts{
		Method: "POST", Target: "/hooks/one",
		Headers: [][2]string{{"X-Id", r.body[:min(len(r.body), 64)]}},
		Body:    []byte(r.body), Peer: netip.MustParseAddrPort("127.0.0.1:4000"),
		SourceID: r.source, ReceivedNS: uint64(r.received.UnixNano()), Position: b.at,
	})
	b.must(err)
	c := f.C()
	c.SetState(uint16(shmabi.StateVerified))
	c.SetEventID(event.NewID(b.lane, b.at, uint64(r.received.UnixNano())))
	if r.key != 0 {
		c.SetDedupKey([16]byte{r.key, 0xff})
		c.SetDedupUntilNS(uint64(r.received.Add(r.window).UnixNano()))
	}
	c.SetOrderKey(r.order)
	c.SetRouteVersion(r.route)
	c.SetAck(uint8(r.ack))
	b.at += uint64(len(f))
	return f
}

// take appends requests as one group and gives their ids.
func (b *bench) take(list ...request) []event.ID {
	b.t.Helper()
	ids := b.append(list...)
	b.must(b.seen())
	return ids
}

// append is take without a commit of the index.
func (b *bench) append(list ...request) []event.ID {
	b.t.Helper()
	from := b.at
	var batch Batch
	var ids []event.ID
	for _, r := range list {
		f := b.frame(r)
		batch.Frames = append(batch.Frames, f)
		ids = append(ids, event.ID(f.C().EventID()))
	}
	if b.at > from {
		batch.Spans = []event.Span{{Lane: b.lane, From: from, To: b.at}}
	}
	b.must(b.Append(batch))
	b.must(b.waitApplied())
	return ids
}

// put appends what is queued, if anything.
func (b *bench) put() {
	b.t.Helper()
	b.must(b.Append(Batch{}))
	b.must(b.seen())
}

func (b *bench) lease(dest uint32) []Delivery { return b.Lease(dest, 1<<20, b.clock.Now()) }

func (b *bench) outcome(d Delivery, kind event.OutcomeKind, next time.Duration) event.Outcome {
	o := event.Outcome{
		Seq: d.Seq, Destination: d.Destination, Kind: kind, Attempt: d.Attempt, Code: 200,
		At: b.clock.Now().UnixNano(),
	}
	switch kind {
	case event.Done:
	case event.Skip:
		o.Attempt, o.Code = 0, 0
	default:
		o.Code, o.Err = 503, fmt.Sprintf("attempt %d failed", d.Attempt)
	}
	if kind == event.Retry {
		o.Next = b.clock.Now().Add(next).UnixNano()
	}
	return o
}

func (b *bench) state(id event.ID) event.State {
	b.t.Helper()
	d, err := b.Event(id)
	b.must(err)
	return d.State
}
