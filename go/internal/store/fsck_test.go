package store

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"sluice/go/internal/event"
	"sluice/go/internal/store/index"
	"sluice/go/internal/store/vfs"
)

// closedStore is a data directory with events in several states, and what a listing says of them.
type closedStore struct {
	*bench
	disk   *vfs.Mem
	events []Event
	dead   []DeadLetter
	next   []Delivery // what a worker would get
}

func (c *closedStore) look() error {
	page, err := c.Events(Filter{})
	dead, err2 := c.DeadLetters(Filter{})
	c.events, c.dead, c.next = page.Items, dead.Items, nil
	for _, dest := range []uint32{1, 2} {
		for _, d := range c.Lease(dest, 1000, c.clock.Now()) {
			d.Expires, d.term = c.clock.Now(), 0
			c.next = append(c.next, d)
		}
	}
	return errors.Join(err, err2, c.Err())
}

func (c *closedStore) start(disk *vfs.Mem) error {
	c.opt.FS, c.opt.indexFS, c.opt.elapsed = disk, engineFS{disk}, c.clock.elapsed
	s, err := Open(context.Background(), c.opt)
	if err != nil {
		return err
	}
	c.Store = s
	return s.Settle(context.Background())
}

func newClosedStore(t *testing.T) *closedStore {
	t.Helper()
	b := newBench(t, nil)
	c := &closedStore{bench: b, disk: vfs.NewMem()}
	b.must(b.Store.Close())
	b.must(c.start(c.disk))
	b.must(b.PutCatalogue(context.Background(), testRoutes))
	for i := range 60 {
		b.take(request{source: 2, route: 2, key: byte(1 + i%50), window: 1e6 * 3600e9,
			body: strings.Repeat("x", 300)})
		if i%3 == 0 {
			for _, d := range b.lease(1) {
				b.Finish(b.outcome(d, []event.OutcomeKind{event.Done, event.Dead}[i%2], 0))
			}
			b.put()
		}
		if i%20 == 19 {
			b.must(b.flush(context.Background()))
		}
	}
	b.must(c.look())
	b.must(b.Store.Close())
	return c
}

// copyOf is a disk with the same files, one changed.
func copyOf(disk *vfs.Mem, name string, change func([]byte) []byte) *vfs.Mem {
	next := vfs.NewMem()
	for _, file := range disk.Names("") {
		b := disk.Dump(file)
		if file == name {
			b = change(b)
		}
		next.Put(file, b)
	}
	return next
}

// Whatever byte of the index changes: the next start, or the one after it, serves what was there.
func TestAFlippedByteOfTheIndexCostsNothing(t *testing.T) {
	c := newClosedStore(t)
	var names []string
	for _, name := range c.disk.Names("data/index/") {
		if len(c.disk.Dump(name)) > 0 {
			names = append(names, name)
		}
	}
	flips := 60
	if os.Getenv("SLUICE_SOAK") == "1" {
		flips = 2000
	}
	rng := rand.New(rand.NewPCG(11, 1))
	events, dead, next := c.events, c.dead, c.next
	rebuilt := 0
	for range flips {
		name := names[rng.IntN(len(names))]
		at, by := rng.IntN(len(c.disk.Dump(name))), byte(1+rng.IntN(255))
		disk := copyOf(c.disk, name, func(b []byte) []byte { b[at] ^= by; return b })
		fail := func(what string, args ...any) {
			t.Helper()
			t.Fatalf("byte %d of %s by %#02x: %s %v", at, path.Base(name), by, what, args)
		}
		r, err := check(disk, engineFS{disk}, "data", nil)
		if err != nil || len(r.Journal.Damage) > 0 {
			fail("check", r, err)
		}
		for try := 0; ; try++ {
			if err := c.start(disk); err != nil {
				fail("start", err)
			}
			if c.Recovery().IndexRebuilt {
				rebuilt++
			} else if r.IndexState == IndexDamaged && try > 0 {
				fail("the check calls it damaged, the second start does not", r.IndexDetail)
			}
			err := c.look()
			if err == nil {
				break
			}
			if try > 0 || !errors.Is(err, index.ErrDamaged) {
				fail("look", err)
			}
			_ = c.Store.Close() // it has stopped by itself
		}
		if d := c.Damage(); len(d) > 0 {
			fail("damage", d)
		}
		same(t, "events", c.events, events)
		same(t, "dead letters", c.dead, dead)
		same(t, "deliveries", c.next, next)
		if t.Failed() {
			fail("is not what it was")
		}
		_ = c.Store.Close()
	}
	t.Logf("%d flips, %d times the index was built again", flips, rebuilt)
}

// Whatever byte of the journal changes while the index is whole: one event is lost at the most, and
// it is named; all others are delivered.
func TestAFlippedByteOfTheJournalCostsOneEvent(t *testing.T) {
	c := newClosedStore(t)
	c.must(c.start(c.disk))
	for range 4 { // groups of several events
		c.take(plain("a"), plain("b"), plain("c"), plain("d"))
	}
	c.must(c.look())
	c.must(c.Store.Close())
	events, next := c.events, c.next
	flips := 150
	if os.Getenv("SLUICE_SOAK") == "1" {
		flips = 5000
	}
	rng := rand.New(rand.NewPCG(12, 1))
	whole, err := check(c.disk, engineFS{c.disk}, "data", nil)
	c.must(err)
	lost := 0
	for range flips {
		s := whole.Journal.Segments[rng.IntN(len(whole.Journal.Segments))]
		at, by := rng.Int64N(s.End), byte(1+rng.IntN(255))
		disk := copyOf(c.disk, "data/journal/"+s.File, func(b []byte) []byte { b[at] ^= by; return b })
		c.must(c.start(disk))
		c.must(c.look())
		same(t, "events", c.events, events)
		same(t, "deliveries", c.next, next)
		var gone []error
		for _, e := range c.events {
			payload, err := c.Read(e.Seq)
			if err != nil {
				gone = append(gone, err)
				continue
			}
			payload.Release()
		}
		lost += len(gone)
		if len(gone) > 1 || len(gone) > 0 && len(c.Damage()) == 0 || t.Failed() {
			t.Fatalf("byte %d of %s by %#02x: %d events are gone: %v, damage %v", at, s.File, by,
				len(gone), gone, c.Damage())
		}
		c.must(c.Store.Close())
	}
	t.Logf("%d flips cost %d events", flips, lost)
}

func TestACheckReadsAllOfADataDirectory(t *testing.T) {
	c := newClosedStore(t)
	rec := vfs.Record(c.disk)
	r, err := check(rec, engineFS{rec}, "data", nil)
	c.must(err)
	if r.Damaged() || r.IndexState != IndexWhole || r.Journal.Events != 60 || len(r.Others) > 0 {
		t.Errorf("a whole data directory: %+v", r)
	}
	for cut := range rec.Cuts() {
		if !strings.Contains(cut.String(), "lock lock") && cut.At > 0 || cut.At > 1 {
			t.Fatalf("a change:\n%v", cut)
		}
	}
	segment := c.disk.Names("data/journal/0")[0]
	disk := copyOf(c.disk, segment, func(b []byte) []byte { b[4096+500] ^= 1; return b })
	disk.Put("data/notes.txt", nil)
	disk.Put("data/journal/notes.txt", nil)
	r, err = check(disk, engineFS{disk}, "data", nil)
	c.must(err)
	if !r.Damaged() || len(r.Journal.Damage) != 1 || r.Journal.Lost != 1 ||
		!slices.Equal(r.Others, []string{"notes.txt"}) ||
		!slices.Equal(r.Journal.Foreign, []string{"notes.txt"}) {
		t.Errorf("a damaged one: %+v", r)
	}

	// An index that knows more than the journal holds is a witness.
	disk = copyOf(c.disk, "", nil)
	for _, name := range disk.Names("data/journal/0") {
		c.must(disk.Remove(name))
	}
	if r, err = check(disk, engineFS{disk}, "data", nil); err != nil || len(r.Journal.Damage) != 1 ||
		r.Journal.Damage[0].LastGroup != r.Index.Applied {
		t.Errorf("a lost journal: %+v, %v", r, err)
	}

	disk = copyOf(c.disk, "", nil)
	for _, name := range disk.Names("data/index/") {
		c.must(disk.Remove(name))
	}
	if r, err = check(disk, engineFS{disk}, "data", nil); err != nil || r.Damaged() ||
		r.IndexState != IndexMissing {
		t.Errorf("without its index: %+v, %v", r, err)
	}
	disk = copyOf(c.disk, "", nil)
	c.must(index.Suspect(engineFS{disk}, "data/index"))
	if r, err = check(disk, engineFS{disk}, "data", nil); err != nil || r.IndexState != IndexDamaged {
		t.Errorf("with an index that was found damaged: %+v, %v", r, err)
	}
	_, err = check(vfs.NewMem(), engineFS{vfs.NewMem()}, "data", nil)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no data directory: %v", err)
	}
}

// logged collects what a store says.
func logged(c *closedStore) *bytes.Buffer {
	var b bytes.Buffer
	c.opt.Log = slog.New(slog.NewTextHandler(&b, nil))
	return &b
}

func TestARebuildShowsItsProgress(t *testing.T) {
	c := newClosedStore(t)
	out := logged(c)
	c.opt.progress = 1 // a line for every group
	for _, name := range c.disk.Names("data/index/") {
		c.must(c.disk.Remove(name))
	}
	c.must(c.start(c.disk))
	for _, want := range []string{"group=1 of=80 percent=1 left=",
		"group=79 of=80 percent=98 left=0s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in the log:\n%s", want, out)
		}
	}
	c.must(c.Store.Close())
}

func TestForeignFilesAndTornGroupsAreNamedInTheLog(t *testing.T) {
	torn := 0
	for seed := range uint64(20) {
		c := newClosedStore(t)
		c.must(c.start(c.disk))
		c.disk.HaltAt(c.disk.Steps() + 2) // inside the next write
		_ = c.Append(Batch{Frames: [][]byte{c.frame(plain(strings.Repeat("x", 100<<10)))}})
		disk := c.disk.Crash(rand.New(rand.NewPCG(seed, 1)))
		_ = c.abandon()
		disk.Put("data/journal/notes.txt", []byte("mine"))
		out := logged(c)
		c.must(c.start(disk))
		if strings.Contains(out.String(), "nobody was told that it is stored") {
			torn++
		}
		if !strings.Contains(out.String(), `left alone" file=notes.txt`) ||
			string(disk.Dump("data/journal/notes.txt")) != "mine" {
			t.Fatalf("a foreign file is not named, or not what it was:\n%s", out)
		}
		if len(c.Damage()) > 0 {
			t.Fatalf("seed %d: damage %v", seed, c.Damage())
		}
		c.must(c.Store.Close())
	}
	if torn == 0 {
		t.Error("no torn group was named")
	}
}

func TestACheckRefusesTheDirectoryOfALivingDaemon(t *testing.T) {
	dir := t.TempDir()
	b, err := onDisk(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	b.must(b.PutCatalogue(context.Background(), testRoutes))
	b.take(plain("x"))
	if _, err := Check(dir, nil); !errors.Is(err, ErrLocked) {
		t.Fatalf("with the store open: %v", err)
	}
	b.must(b.Store.Close())
	r, err := Check(dir, nil)
	if err != nil || r.Damaged() || r.Journal.Events != 1 || r.Index.Events != 1 {
		t.Fatalf("after its close: %+v, %v", r, err)
	}
	if b, err = onDisk(t, dir); err != nil { // the check holds nothing any more
		t.Fatal(err)
	}
	b.must(b.Store.Close())
}
