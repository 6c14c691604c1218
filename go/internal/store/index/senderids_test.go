package index

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"sluice/go/internal/event"
)

// TestSenderIDsAreFoundInEveryPartAndGoWithTheirEvents uses each id many times over several parts,
// and trims them.
func TestSenderIDsAreFoundInEveryPartAndGoWithTheirEvents(t *testing.T) {
	const groups, ids = 400, 7
	fs := vfs.NewMem()
	x := open(t, fs)
	x.partKeys = 100
	for g := uint64(1); g <= groups; g++ {
		r := pendingRecord(event.NewSeq(g, 0))
		r.Deliveries[0].State = event.Delivered
		r.Loc.Segment = 1
		if g == 30 {
			r.Deliveries[0].State = event.Pending // it is kept when the others go
		}
		x.Change(r)
		x.AddSenderID(r.Seq, HashSenderID(fmt.Append(nil, g%ids)))
		x.Meta().Counts.Events++
		if g%90 == 0 {
			must(t, x.Commit())
		}
	}
	x.Meta().Counts.Sources[1], x.Meta().Counts.Destinations[1] = new(SourceCounts),
		new(DestinationCounts)
	must(t, x.Commit())
	look := func(when string, from uint64, more int) {
		t.Helper()
		for id := range uint64(ids) {
			for _, oldest := range []bool{false, true} {
				var got []uint64
				q := Query{SenderID: HashSenderID(fmt.Append(nil, id)), Oldest: oldest}
				must(t, x.Events(q, func(r *Record) bool {
					if r.Seq.Group()%ids == id { // the reader compares the ids
						got = append(got, r.Seq.Group())
					}
					return true
				}))
				want := 0
				for g := from; g <= groups; g++ {
					if g%ids == id {
						want++
					}
				}
				if id == 30%ids {
					want += more
				}
				if len(got) != want {
					t.Fatalf("%s: %d events of id %d, want %d", when, len(got), id, want)
				}
				for i := 1; i < len(got); i++ {
					if oldest != (got[i] > got[i-1]) {
						t.Fatalf("%s: %v is not in order", when, got)
					}
				}
			}
		}
	}
	look("before", 1, 0)
	if n := len(x.Meta().SenderIDs); n != groups/100 {
		t.Errorf("%d parts", n)
	}
	_, stay, err := x.Trim(250, nil)
	must(t, err)
	if stay != 1 {
		t.Errorf("%d events stay, want 1", stay)
	}
	look("after a trim", 251, 1)
	buckets := map[uint16]bool{}
	for id := range uint64(ids) {
		buckets[bucketOfHash(HashSenderID(fmt.Append(nil, id)))] = true
	}
	// The part that the trim ends in stays whole: it and the last one came in two commits each.
	if n, want := rows(t, x)["p"], 4*len(buckets); n != want {
		t.Errorf("%d rows are left, want %d", n, want)
	}
	must(t, x.Close())
	x = open(t, fs)
	look("opened again", 251, 1)
	must(t, x.Close())
}
