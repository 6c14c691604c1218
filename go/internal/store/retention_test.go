package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/store/index"
)

// aDay takes so many events of 100 KB, has them delivered, and lets a day pass.
func (b *bench) aDay(events int) {
	b.t.Helper()
	body := string(make([]byte, 100<<10))
	for range events {
		b.take(request{source: 3, route: 3, body: body})
	}
	b.clock.advance(24 * time.Hour)
	b.house()
}

// TestRetentionByAgeCarriesForwardWhatIsUndecided has a disk that is all but empty: what few
// deliveries are pending or dead holds nothing else back.
func TestRetentionByAgeCarriesForwardWhatIsUndecided(t *testing.T) {
	b := newBench(t, func(o *Options) { o.Retention.MaxAge, o.Describe = 48*time.Hour, describe })
	ids := b.take(plain("pending"), plain("retrying"), plain("dead"), plain("dropped"),
		plain("delivered"))
	for _, d := range b.lease(1) {
		switch d.ID {
		case ids[0]:
			b.Unlease(d)
		case ids[1]:
			b.Finish(b.outcome(d, event.Retry, 1000*time.Hour))
		case ids[4]:
			b.Finish(b.outcome(d, event.Done, 0))
		default:
			b.Finish(b.outcome(d, event.Dead, 0))
		}
	}
	b.put()
	_, err := b.DropDead(context.Background(), Filter{ID: ids[3]}, "unwanted", "tester")
	b.must(err)
	check := func(when string) {
		t.Helper()
		for i, want := range []event.State{event.Pending, event.Retrying, event.DeadLetter} {
			detail, err := b.Event(ids[i])
			if err != nil || detail.State != want || len(detail.Attempts) != min(i, 1) {
				t.Fatalf("%s: event %d is %+v, %v", when, i, detail, err)
			}
			p, err := b.Read(detail.Seq)
			b.must(err)
			found, _ := b.looked(Filter{ProviderID: string(p.Body())})
			if len(found) != 1 || found[0].ID != ids[i] || found[0].Type == "" {
				t.Errorf("%s: found %+v by %s", when, found, p.Body())
			}
			p.Release()
		}
		for _, id := range ids[3:] {
			if _, err := b.Event(id); !errors.Is(err, ErrNotFound) {
				t.Errorf("%s: what was decided is kept: %v", when, err)
			}
		}
		dead, err := b.DeadLetters(Filter{Destination: 1, Type: "d"})
		b.must(err)
		if n := b.Stats().Destinations[0].Dead; len(dead.Items) != 1 || n != 1 {
			t.Errorf("%s: dead letters %+v, %d counted", when, dead.Items, n)
		}
	}
	for round := range 3 { // their copies grow old as well
		for range 4 {
			b.aDay(12)
		}
		check(fmt.Sprintf("round %d", round))
		if n := len(b.journal.Segments()); n > 6 {
			t.Fatalf("round %d: %d segments are kept", round, n)
		}
		b.restart()
	}
	check("after restarts")
	b.crash(rand.New(rand.NewPCG(1, 1)), false)
	check("after a power cut")
	b.must(b.Store.Close())
	b.must(index.Remove(b.xfs, "data/index"))
	b.open()
	check("without the index")
	b.clock.advance(DefaultDeadAge)
	for range 4 {
		b.aDay(12)
	}
	if _, err := b.Event(ids[2]); !errors.Is(err, ErrNotFound) {
		t.Errorf("a dead letter beyond its age: %v", err)
	}
	if got := b.lease(1); len(got) != 2 {
		t.Errorf("leased %+v", got)
	}
}

// TestManyDeadLettersDoNotStopIntake fills a disk with what a destination refused.
func TestManyDeadLettersDoNotStopIntake(t *testing.T) {
	b := smallDisk(t, 24)
	body := string(make([]byte, 100<<10))
	for range 600 {
		b.take(plain(body))
		for _, d := range b.lease(1) {
			b.Finish(b.outcome(d, event.Dead, 0))
		}
		b.put()
		if b.spaceShort() {
			b.house()
		}
		if b.look().Full {
			t.Fatalf("full of dead letters: %+v", b.look())
		}
	}
	stats := b.Stats()
	if kept := stats.Destinations[0].Dead; stats.DeadDropped+kept != 600 || kept == 0 {
		t.Errorf("%d dead letters went and %d are kept", stats.DeadDropped, kept)
	}
}

// TestAnIdleStoreWritesNothing looks at every file.
func TestAnIdleStoreWritesNothing(t *testing.T) {
	b := newSoak(t, windowMax)
	b.take(plain("x"))
	b.finishAll(b.lease(1))
	b.put()
	b.clock.advance(2 * time.Second)
	b.must(b.Idle()) // the mark
	b.must(b.keepHouse(context.Background(), true))
	files := func() map[string]string {
		found := map[string]string{}
		b.must(filepath.WalkDir(b.opt.Dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			found[path] = fmt.Sprint(info.Size(), info.ModTime().UnixNano())
			return err
		}))
		return found
	}
	before := files()
	for range 5 {
		b.clock.advance(time.Minute)
		b.must(b.Idle())
		b.must(b.keepHouse(context.Background(), true))
		b.mu.Lock()
		b.must(b.commit())
		b.mu.Unlock()
		b.Stats()
	}
	if after := files(); !maps.Equal(after, before) {
		t.Errorf("before %v\nafter  %v", before, after)
	}
	b.must(b.Close())
}

func TestStatsTellHowLongABacklogTakes(t *testing.T) {
	b := newBench(t, nil)
	came := b.clock.Now()
	var list []request
	for n := range 120 {
		list = append(list, plain(fmt.Sprint(n)))
	}
	b.take(list...)
	if _, ok := b.Stats().Destinations[0].Drain(); ok {
		t.Error("nothing was delivered, and yet it ends")
	}
	got := b.lease(1)
	b.Finish(b.outcome(got[0], event.Retry, time.Hour)) // ends nothing
	for second := range 60 {
		b.clock.advance(time.Second)
		b.Finish(b.outcome(got[1+second], event.Done, 0))
		b.put()
	}
	stats := b.Stats()
	d := stats.Destinations[0]
	if drain, ok := d.Drain(); !ok || d.Rate != 1 || d.Backlog != 60 || drain != time.Minute {
		t.Errorf("%+v drains in %v", d, drain)
	}
	if !stats.Undelivered.Equal(came) {
		t.Errorf("oldest undelivered %v, want %v", stats.Undelivered, came)
	}
	b.clock.advance(time.Hour)
	if rate := b.Stats().Destinations[0].Rate; rate != 0 {
		t.Errorf("%v a second an hour later", rate)
	}
	for _, d := range b.lease(1) {
		b.Finish(b.outcome(d, event.Done, 0))
	}
	for _, d := range got[61:] {
		b.Finish(b.outcome(d, event.Done, 0))
	}
	b.put()
	late := b.take(plain("late"))[0]
	if at := b.Stats().Undelivered; !at.Equal(b.clock.Now()) {
		t.Errorf("oldest undelivered %v of all but one", at)
	}
	b.finishAll(b.lease(1))
	b.put()
	if at := b.Stats().Undelivered; !at.IsZero() || b.state(late) != event.Delivered {
		t.Errorf("oldest undelivered %v of none", at)
	}
	n, err := b.ReplayEvents(context.Background(), Filter{Source: 1}, Replay{By: "tester"})
	b.must(err)
	if at := b.Stats().Undelivered; n != 121 || !at.Equal(came) {
		t.Errorf("oldest undelivered %v after %d were replayed, want %v", at, n, came)
	}
}

func TestHeadroomEndsWhereTheStoreIsFull(t *testing.T) {
	b := smallDisk(t, 24)
	body := string(make([]byte, 100<<10))
	for {
		space := b.look()
		if (space.Headroom == 0) != space.Full {
			t.Fatalf("headroom of a store: %+v", space)
		}
		if space.Full {
			return
		}
		b.take(plain(body))
	}
}

// TestRetentionDropsNoMoreThanSpaceNeeds goes through a disk several times. Files of dropped
// segments become free with the next segment only, and what they will give back is counted.
func TestRetentionDropsNoMoreThanSpaceNeeds(t *testing.T) {
	const size = 16 // MiB, and as many segments
	b := smallDisk(t, size)
	body := string(make([]byte, 100<<10))
	full, least := false, 1.0
	for taken := 0; taken < 4*size*mib; taken += len(body) {
		b.take(plain(body))
		b.finishAll(b.lease(1))
		b.put()
		b.space.forget()
		b.must(b.keepHouse(context.Background(), false))
		s := b.look()
		if s.Full {
			t.Fatalf("full after %d bytes: %+v", taken, s)
		}
		share := float64(s.UsedBytes) / float64(s.TotalBytes)
		if full = full || share > float64(TrimShare-10)/100; full {
			least = min(least, share)
		}
	}
	if !full || least < 0.5 {
		t.Errorf("retention left %.0f %% of the space in use, full: %v", 100*least, full)
	}
}
