package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	pebblevfs "github.com/cockroachdb/pebble/v2/vfs"

	"sluice/go/internal/event"
	"sluice/go/internal/store/index"
	"sluice/go/internal/store/vfs"
)

// sickIndex is a store whose index lies on a disk, in memory as well, that can refuse.
type sickIndex struct {
	*bench
	disk *vfs.Mem
	sick *vfs.Faulty
}

func newSickIndex(t *testing.T) *sickIndex {
	t.Helper()
	b := &sickIndex{bench: newBench(t, nil), disk: vfs.NewMem()}
	b.must(b.Store.Close())
	b.must(b.disk.MkdirAll("data"))
	b.start()
	return b
}

func (b *sickIndex) options() Options {
	b.sick = vfs.NewFaulty(b.disk, nil, nil)
	o := b.opt
	o.FS, o.indexFS, o.elapsed = b.fs, engineFS{b.sick}, b.clock.elapsed
	return o
}

func (b *sickIndex) start() {
	b.t.Helper()
	s, err := Open(context.Background(), b.options())
	b.must(err)
	b.Store = s
	b.must(s.Settle(context.Background()))
}

// cut is a power cut of both disks.
func (b *sickIndex) cut(seed uint64) {
	b.t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	fs, disk := b.fs.Crash(rng), b.disk.Crash(rng)
	_ = b.abandon()
	b.fs, b.disk = fs, disk
	b.start()
}

// flushing begins to move the index to its disk and gives what tells that it is there.
func (b *sickIndex) flushing() chan error {
	done := make(chan error, 1)
	go func() { done <- b.flush(context.Background()) }()
	return done
}

var refusals = []syscall.Errno{
	syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EROFS, syscall.EIO,
}

// refusable are the calls by which the engine changes its disk.
var refusable = map[string]vfs.Fault{
	"create":        {Op: vfs.OpCreate},
	"write":         {Op: vfs.OpWrite},
	"write a list":  {Op: vfs.OpWrite, Pattern: "MANIFEST-*"},
	"sync":          {Op: vfs.OpSync},
	"sync a list":   {Op: vfs.OpSync, Pattern: "MANIFEST-*"},
	"sync names":    {Op: vfs.OpSyncDir},
	"any change":    {Op: vfs.OpCreate | vfs.OpWrite | vfs.OpSync | vfs.OpSyncDir | vfs.OpRemove},
	"sync any list": {Op: vfs.OpSync, Pattern: "[Mt]*"},
}

// Whatever the disk of the index refuses, and however often: what was acknowledged stays so, what
// comes gets 503 as long as it lasts, and the process goes on by itself. What a power cut leaves
// afterwards is an index that is whole.
func TestTheIndexOutlastsWhatItsDiskRefuses(t *testing.T) {
	for call, fault := range refusable {
		for _, errno := range refusals {
			t.Run(fmt.Sprintf("%s/%v", call, errno), func(t *testing.T) {
				t.Parallel()
				b := newSickIndex(t)
				ids := b.take(plain("before"))
				b.must(b.flush(context.Background()))
				fault := fault
				fault.Err = errno
				b.must(b.sick.Set(call, fault))
				ids = append(ids, b.take(plain("meanwhile"))...)
				done := b.flushing()
				if call == "sync a list" { // another file takes its place at once
					b.must(<-done)
					done <- nil
				} else {
					eventually(t, "it is held", func() bool { return !b.Space().Writable })
				}
				ids = append(ids, b.take(plain("a frame on its way"))...)
				select {
				case <-b.Failed():
					t.Fatalf("the store gave up: %v", b.Err())
				default:
				}
				for _, id := range ids {
					if got := b.state(id); got != event.Pending {
						t.Errorf("an event is %s", got)
					}
				}
				b.sick.Clear(call)
				b.must(<-done)
				eventually(t, "it takes events again", func() bool { return b.Space().Writable })
				b.take(plain("after"))
				for seed := range uint64(3) {
					b.cut(seed)
					if b.Recovery().IndexRebuilt {
						t.Fatal("the index had to be built again")
					}
					if got := b.index.Meta().Applied; got == 0 {
						t.Error("the index is empty")
					}
					if got := b.lease(1); len(got) != len(ids)+1 {
						t.Errorf("%d events are left, want %d", len(got), len(ids)+1)
					}
				}
			})
		}
	}
}

func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// A start waits as well, as long as it is not told to stop.
func TestAStartWaitsUntilTheIndexCanBeWritten(t *testing.T) {
	for _, errno := range refusals {
		for call, fault := range refusable {
			if call == "sync a list" { // another file takes its place at once
				continue
			}
			b := newSickIndex(t)
			b.take(plain("before"))
			b.must(b.Store.Close())
			_ = b.disk.Remove("data/index/BALLAST")
			ctx, cancel := context.WithCancel(context.Background())
			fault.Err = errno
			opened := make(chan error, 1)
			open := func() {
				o := b.options()
				b.must(b.sick.Set(call, fault))
				go func() {
					s, err := Open(ctx, o)
					if err == nil {
						b.Store = s
					}
					opened <- err
				}()
				eventually(t, "the disk refuses", func() bool { return b.sick.Met(call) > 0 })
			}
			open()
			b.sick.Clear(call)
			if err := <-opened; err != nil {
				t.Fatalf("%s, %v: opened with %v", call, errno, err)
			}
			if b.Recovery().IndexRebuilt {
				t.Errorf("%s, %v: the index was built again", call, errno)
			}
			b.must(b.Settle(ctx))
			if got := b.lease(1); len(got) != 1 {
				t.Errorf("%s, %v: leased %v", call, errno, got)
			}
			b.must(b.Store.Close())
			open()
			cancel()
			if err := <-opened; !errors.Is(err, index.ErrFull) {
				t.Errorf("%s, %v: stopped with %v", call, errno, err)
			}
		}
	}
}

// A disk that refuses to read at a start is told of, with the mend, and the index is left as it is.
func TestAStartThatCannotReadLeavesTheIndex(t *testing.T) {
	reads := map[string]vfs.Op{"read": vfs.OpRead, "open": vfs.OpOpen, "list": vfs.OpList}
	for call, op := range reads {
		for _, errno := range []syscall.Errno{syscall.EIO, syscall.EACCES, syscall.EMFILE} {
			told := false
			for after := range 12 {
				b := newSickIndex(t)
				b.take(plain("before"))
				b.must(b.Store.Close())
				o := b.options()
				b.must(b.sick.Set(call, vfs.Fault{Op: op, Err: errno, After: after, Times: 1}))
				s, err := Open(context.Background(), o)
				b.sick.Clear(call)
				if err == nil {
					b.must(s.Close())
				} else {
					told = true
					if !strings.Contains(err.Error(), index.Mend(errno)) {
						t.Errorf("%s, %v, after %d: no mend in %v", call, errno, after, err)
					}
				}
				b.start()
				if b.Recovery().IndexRebuilt {
					t.Errorf("%s, %v, after %d: the index is gone", call, errno, after)
				}
				b.must(b.Store.Close())
			}
			if !told {
				t.Errorf("%s, %v: nobody was told", call, errno)
			}
		}
	}
}

// What the applier and a lease read cannot be done without: they wait for it as long as it takes,
// which is longer than anybody else does, and go on by themselves, or end with the store.
func TestTheWriterOutlastsWhatItsDiskDoesNotGive(t *testing.T) {
	for name, need := range map[string]func(b *sickIndex, seq event.Seq) error{
		"applier": func(b *sickIndex, seq event.Seq) error {
			d := Delivery{Seq: seq, Destination: 2, Attempt: 1}
			b.Finish(b.outcome(d, event.Done, 0))
			return b.Append(Batch{})
		},
		"lease": func(b *sickIndex, _ event.Seq) error {
			if got := b.lease(2); len(got) != 1 && b.Err() == nil {
				return fmt.Errorf("leased %d deliveries", len(got))
			}
			return nil
		},
	} {
		for _, stops := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stops=%v", name, stops), func(t *testing.T) {
				t.Parallel()
				b := newSickIndex(t)
				// A start reads, and so has in memory, the first and the last event.
				many := slices.Repeat([]request{plain("many")}, 1000)
				b.take(many...)
				seq := b.seqOf(b.take(request{source: 2, route: 2, body: "y"})[0])
				b.take(many...)
				b.take(plain("last"))
				b.must(b.Store.Close())
				b.start()
				b.must(b.sick.Set("read", vfs.Fault{Op: vfs.OpRead | vfs.OpOpen, Err: syscall.EIO}))
				done := make(chan error, 1)
				go func() { done <- need(b, seq) }()
				// A tenth of a second apart: others are told after 5 s.
				eventually(t, "it waits", func() bool { return b.sick.Met("read") > 70 })
				if b.Space().Writable || b.Err() != nil {
					t.Fatalf("events are taken in: %v, the store: %v", b.Space().Writable, b.Err())
				}
				if stops {
					_ = b.Store.Close() // it gave up, or closes while it waits
					b.must(<-done)
					b.start()
					if b.Recovery().IndexRebuilt {
						t.Error("the index had to be built again")
					}
					return
				}
				b.sick.Clear("read")
				b.must(<-done)
				eventually(t, "events are taken in", func() bool { return b.Space().Writable })
				b.must(b.seen())
			})
		}
	}
}

// An index of long ago, from a copy of the disk for example, knows nothing of what was decided in
// segments that are gone.
func TestAnIndexFromBeforeTheJournalIsBuiltAgain(t *testing.T) {
	b := newBench(t, threeDays)
	first := b.take(keyed(1, "x"))[0]
	gone := b.seqOf(first)
	b.must(b.flush(context.Background()))
	old := b.xfs.CrashClone(pebblevfs.CrashCloneCfg{
		UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1)),
	})
	b.end(event.Done, b.lease(1)...)
	b.pass(1)
	kept := b.seqOf(b.take(keyed(1, "x"))[0])
	b.pass(3)
	b.wantGone(gone, kept)
	b.must(b.Store.Close())
	b.xfs = old
	b.open()
	if !b.Recovery().IndexRebuilt {
		t.Error("an index that ends before the journal begins is believed")
	}
	b.wantLeased("with the old index")
}
