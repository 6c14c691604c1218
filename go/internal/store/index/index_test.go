package index

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"sluice/go/internal/event"
	"sluice/go/internal/store/journal"
)

var testJournal = [16]byte{1}

func open(t *testing.T, fs vfs.FS) *Index {
	t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	x, err := Open("index", Options{FS: fs, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Claim(testJournal); err != nil {
		t.Fatal(err)
	}
	return x
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rows counts the rows by their letter.
func rows(t *testing.T, x *Index) map[string]int {
	t.Helper()
	it, err := x.iter(nil, nil)
	must(t, err)
	counts := map[string]int{}
	for ok := it.First(); ok; ok = it.Next() {
		counts[string(it.Key()[:1])]++
	}
	must(t, closeIter(it))
	return counts
}

func pendingRecord(seq event.Seq) *Record {
	at := int64(seq)*int64(time.Millisecond) + 1e18
	return &Record{
		Seq: seq, ID: event.NewID(event.LaneID{1}, uint64(seq), uint64(at)), Source: 1, Route: 1,
		Received: at, Horizon: at,
		Deliveries: []Delivery{{Destination: 1, State: event.Pending}},
	}
}

func TestARecordSurvivesItsRow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		r := &Record{
			Seq: event.Seq(rng.Uint64()), Source: rng.Uint32(), Route: rng.Uint32(),
			Size: rng.Uint32(), Received: rng.Int64(), OrderKey: rng.Uint64(),
			Attempts: rng.Uint32(), Type: rng.Uint32(),
			Loc: journal.Loc{
				Segment: rng.Uint64(), Offset: int64(rng.Uint32()) * 64,
				Length: uint32(rng.IntN(1<<20)) * 64, Check: rng.Uint32(),
			},
		}
		r.Horizon = r.Received + int64(rng.Uint32())
		if rng.IntN(2) == 0 {
			r.First = event.ID{byte(1 + rng.IntN(255))}
		}
		for range rng.IntN(4) {
			r.Deliveries = append(r.Deliveries, Delivery{
				Destination: rng.Uint32(), State: event.State(1 + rng.IntN(4)),
				Attempts: uint16(rng.Uint32()), Code: uint16(rng.Uint32()), Next: rng.Int64(),
				At: rng.Int64(), Err: fmt.Sprint(rng.Uint64()), Blocked: rng.IntN(2) == 0,
				Dropped: rng.IntN(2) == 0, Plain: rng.IntN(2) == 0, Blocks: rng.IntN(2) == 0,
			})
		}
		row := appendRecord(nil, r)
		got, err := parseRecord(r.Seq, row)
		must(t, err)
		r.settle()
		if !reflect.DeepEqual(got, r) {
			t.Fatalf("read %+v, wrote %+v", got, r)
		}
		for n := range row {
			if got, err := parseRecord(r.Seq, row[:n]); err == nil {
				t.Fatalf("%d of %d bytes read as %+v", n, len(row), got)
			}
		}
	}
}

func TestAnOutcomeSurvivesItsRow(t *testing.T) {
	for _, blocks := range []bool{false, true} {
		o := event.Outcome{
			Seq: 7, Destination: 3, Kind: event.Dead, Attempt: 2, Code: 410, At: 100, Next: 200,
			Err: "410 Gone", By: "ops", Blocks: blocks,
		}
		row := appendOutcome(nil, &o)
		if got, err := parseOutcome(7, row); got != o || err != nil {
			t.Errorf("read %+v, %v, wrote %+v", got, err, o)
		}
	}
}

func TestAnIndexOfAnotherFormatIsToBeBuiltAgain(t *testing.T) {
	for _, format := range []int{formatVersion - 1, formatVersion + 1} {
		fs := vfs.NewMem()
		x := open(t, fs)
		x.meta.Format = format
		must(t, x.Commit())
		must(t, x.Close())
		if _, err := Open("index", Options{FS: fs}); !errors.Is(err, ErrDamaged) {
			t.Errorf("format %d: %v", format, err)
		}
	}
}

func TestAnEventDeliveredAtOnceCostsOneRow(t *testing.T) {
	x := open(t, vfs.NewMem())
	const events = 100
	for i := range events {
		r := pendingRecord(event.NewSeq(1, i))
		x.Change(r)
		r.Deliveries[0].State = event.Delivered
		r.Deliveries[0].Plain = true
	}
	must(t, x.Commit())
	got := rows(t, x)
	if got["e"] != events || got["f"]+got["d"]+got["u"]+got["a"]+got["x"] != 0 {
		t.Errorf("rows %v", got)
	}
	if ways := got["t"] + got["l"] + got["g"]; ways > events/10 {
		t.Errorf("%d rows lead to %d events of one group", ways, events)
	}
	must(t, x.Close())
}

func TestNothingIsLeftOfADeliveryThatEnded(t *testing.T) {
	x := open(t, vfs.NewMem())
	r := pendingRecord(event.NewSeq(1, 0))
	d := &r.Deliveries[0]
	for _, state := range []event.State{
		event.Pending, event.Retrying, event.DeadLetter, event.Pending, event.Retrying,
		event.Delivered,
	} {
		d.State, d.Next = state, 0
		if state == event.Retrying {
			d.Next = 77
		}
		x.Change(r)
		must(t, x.Commit())
		want := map[event.State]string{
			event.Pending:    "map[e:1 f:1 g:1 l:1 m:1 t:1 u:1]",
			event.Retrying:   "map[d:1 e:1 g:1 l:1 m:1 t:1 u:1]",
			event.DeadLetter: "map[e:1 g:1 l:1 m:1 t:1 v:1 x:1]",
			event.Delivered:  "map[e:1 g:1 l:1 m:1 t:1]",
		}[state]
		if got := fmt.Sprint(rows(t, x)); got != want {
			t.Errorf("%s: rows %s, want %s", state, got, want)
		}
	}
	must(t, x.Close())
}

func TestACrashLeavesAPrefix(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 5))
		fs := vfs.NewCrashableMem()
		root, err := fs.OpenDir("/")
		must(t, err)
		x := open(t, fs)
		must(t, root.Sync())
		groups := uint64(0)
		for range 200 {
			groups++
			x.Change(pendingRecord(event.NewSeq(groups, 0)))
			x.Meta().Applied = groups
			must(t, x.Commit())
			if rng.IntN(20) == 0 {
				_, err := x.Flush()
				must(t, err)
			}
		}
		cut := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
		must(t, x.Abandon())
		y := open(t, cut)
		applied := y.Meta().Applied
		for g := uint64(1); g <= groups; g++ {
			r, err := y.Get(event.NewSeq(g, 0))
			must(t, err)
			if (r != nil) != (g <= applied) {
				t.Fatalf("seed %d: applied %d, group %d is there: %v", seed, applied, g, r != nil)
			}
		}
		must(t, y.Close())
	}
}

func TestTheOldestOfAKeyIsFound(t *testing.T) {
	x := open(t, vfs.NewMem())
	first := func(want event.Seq) {
		t.Helper()
		got, ok, err := x.FirstInOrder(1, 9)
		must(t, err)
		if got != want || ok != (want != 0) {
			t.Fatalf("first is %d, %v, want %d", got, ok, want)
		}
	}
	rng := rand.New(rand.NewPCG(2, 2))
	living := map[event.Seq]bool{}
	for range 3000 {
		seq := event.Seq(1 + rng.IntN(40))
		switch {
		case rng.IntN(10) == 0:
			must(t, x.Commit())
		case living[seq]:
			x.RemoveOrder(1, 9, seq)
			delete(living, seq)
		default:
			x.AddOrder(1, 9, seq)
			living[seq] = true
		}
		x.AddOrder(1, 8, 1) // a neighbour that never goes
		var want event.Seq
		for seq := range living {
			if want == 0 || seq < want {
				want = seq
			}
		}
		first(want)
	}
	must(t, x.Close())
}

func TestADedupWindowIsJudgedByReceivedTimes(t *testing.T) {
	const day = int64(24 * time.Hour)
	x := open(t, vfs.NewMem())
	key := [16]byte{5}
	now := 1000*day + 1
	x.Meta().Horizon = now
	x.AddDedup(Dedup{Source: 1, Key: key, First: event.ID{1}, Until: now + 3*day})
	look := func(source uint32, received int64, want event.ID) {
		t.Helper()
		d, ok, err := x.LookupDedup(source, key, received)
		must(t, err)
		if ok != !want.IsZero() || d.First != want {
			t.Errorf("received %+d: %v, %v, want %v", received-now, d.First, ok, want)
		}
	}
	for range 2 { // pending, then in a row
		look(1, now, event.ID{1})
		look(1, now-day, event.ID{1})
		look(1, now+3*day-1, event.ID{1})
		look(1, now+3*day, event.ID{})
		look(2, now, event.ID{})
		must(t, x.Commit())
	}
	x.AddDedup(Dedup{Source: 1, Key: key, First: event.ID{2}, Until: now + 9*day})
	look(1, now, event.ID{1})
	look(1, now+4*day, event.ID{2})
	x.Meta().Horizon = now + 5*day // the first one's bucket is past
	look(1, now, event.ID{2})
	must(t, x.Commit())
	if n := rows(t, x)["k"]; n != 1 {
		t.Errorf("%d dedup rows are left, want 1", n)
	}
	must(t, x.Close())
}

func TestTrimKeepsTheLiving(t *testing.T) {
	x := open(t, vfs.NewMem())
	for g := uint64(1); g <= 100; g++ {
		r := pendingRecord(event.NewSeq(g, 0))
		r.Loc.Segment = 1
		d := &r.Deliveries[0]
		x.Meta().Counts.Destinations[1] = &DestinationCounts{Dead: 98}
		switch {
		case g == 40:
			d.State, d.Next = event.Retrying, 5
			x.AddAttempt(r, event.Outcome{Seq: r.Seq, Destination: 1, Kind: event.Retry, Attempt: 1})
		case g == 90:
		default:
			d.State = event.DeadLetter
		}
		x.Change(r)
	}
	x.Meta().Counts.Events = 100
	x.Meta().Counts.Sources[1] = &SourceCounts{Accepted: 100}
	must(t, x.Commit())
	list, err := x.Survivors(1, 80, 10, nil)
	must(t, err)
	if len(list) != 1 || list[0].Seq.Group() != 40 {
		t.Fatalf("survivors %+v", list)
	}
	fifth := func(r *Record, _ *Delivery) bool { return r.Seq.Group()%5 == 0 }
	if list, err = x.Survivors(1, 80, 100, fifth); err != nil || len(list) != 16 {
		t.Fatalf("%d survivors with dead letters, %v", len(list), err)
	}
	dead, stay, err := x.Trim(80, nil)
	must(t, err)
	if dead != 79 || stay != 1 || x.Meta().Counts.Events != 21 ||
		x.Meta().Counts.Destinations[1].Dead != 19 {
		t.Errorf("%d dead letters went, %+v", dead, x.Meta().Counts)
	}
	if got := fmt.Sprint(rows(t, x)); got != "map[a:1 d:1 e:21 f:1 g:3 l:3 m:1 t:22 u:2 v:19 x:19]" {
		t.Errorf("rows %s", got)
	}
	r, err := x.Find(pendingRecord(event.NewSeq(40, 0)).ID)
	must(t, err)
	if r == nil || r.State() != event.Retrying {
		t.Errorf("the survivor is %+v", r)
	}
	if r, err := x.Find(pendingRecord(event.NewSeq(41, 0)).ID); r != nil || err != nil {
		t.Errorf("a trimmed event is found: %+v, %v", r, err)
	}
	must(t, x.Close())
}

func TestAnotherJournalsIndexIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	must(t, open(t, fs).Close())
	x, err := Open("index", Options{FS: fs})
	must(t, err)
	if _, err := x.Claim([16]byte{2}); !errors.Is(err, ErrDamaged) {
		t.Errorf("claimed by another journal: %v", err)
	}
	must(t, x.Close())
	must(t, Suspect(fs, "index"))
	if _, err := Open("index", Options{FS: fs}); !errors.Is(err, ErrDamaged) {
		t.Errorf("suspect index: %v", err)
	}
}
