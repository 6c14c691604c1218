package store

import (
	"bytes"
	"context"
	"reflect"
	"slices"
	"testing"

	"sluice/go/internal/event"
	"sluice/go/internal/store/index"
)

// An event that is damaged in its place is known by its copy, and what became of it by what came
// along with that, by what became durable while it was on its way, and by what came in its group.
func TestAnEventDamagedInItsPlaceKeepsItsOutcomesBesideItsCopy(t *testing.T) {
	const body = "damaged in its place"
	for _, when := range []string{"before the copy", "on its way", "in its group"} {
		t.Run(when, func(t *testing.T) {
			b := newBench(t, nil)
			ids := b.take(request{source: 2, route: 2, body: body})
			b.end(event.Dead, b.lease(1)...)
			_, err := b.ReplayDead(context.Background(), Filter{Limit: 1}, Replay{By: "tester"})
			b.must(err)
			got := b.lease(1)
			for b.journal.Segments()[0].Current {
				b.take(plain(string(make([]byte, 100<<10))))
			}
			if when == "before the copy" {
				b.end(event.Done, got...)
			}
			segment := b.journal.Segments()[0]
			survivors, err := b.survivors(segment, nil)
			b.must(err)
			list, err := b.copies(survivors)
			b.must(err)
			switch when {
			case "on its way":
				b.end(event.Done, got...)
			case "in its group":
				b.appendMu.Lock() // the committer waits until both are there
				for _, d := range got {
					b.Finish(b.outcome(d, event.Done, 0))
				}
			}
			done := &ticket{done: make(chan struct{})}
			b.outbox.addRescues(list, done)
			if when == "in its group" {
				b.appendMu.Unlock()
			}
			b.put()
			<-done.done
			before, err := b.Event(ids[0])
			b.must(err)
			b.must(b.Store.Close())
			file := "data/journal/" + segment.File
			text := b.fs.Dump(file)
			text[bytes.Index(text, []byte(body))] ^= 1
			b.fs.Put(file, text)
			b.must(index.Remove(b.xfs, "data/index"))
			b.open()
			after, err := b.Event(ids[0])
			b.must(err)
			if !reflect.DeepEqual(after, before) {
				t.Errorf("it is\n%+v, was\n%+v", after, before)
			}
			if slices.ContainsFunc(b.lease(1), func(d Delivery) bool { return d.ID == ids[0] }) {
				t.Error("what was delivered is delivered again")
			}
		})
	}
}
