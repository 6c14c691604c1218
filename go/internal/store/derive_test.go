package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/shm-abi/shmabi"
)

func TestWhatIsDerivedIsMadeOnceAndGoesWhereItsRouteSays(t *testing.T) {
	b := newBench(t, nil)
	parent := b.take(request{source: 1, route: 1, body: "[1,2]"})[0]
	d, err := b.Event(parent)
	b.must(err)
	p, err := b.Read(d.Seq)
	b.must(err)
	item := func(n uint32, route uint32, key byte) shmabi.Frame {
		f := append(shmabi.Frame{}, p.Frame()...)
		c := f.C()
		c.SetEventID(parent.Item(n))
		c.SetRouteVersion(route)
		c.SetDedupKey([16]byte{key})
		c.SetDedupUntilNS(f.D().ReceivedNS() + uint64(time.Hour))
		return f
	}
	frames := []shmabi.Frame{item(0, 2, 1), item(1, 2, 2), item(2, 2, 1)}
	p.Release()
	ctx := context.Background()
	for n, want := range []ImportResult{{Taken: 2, Known: 0}, {Taken: 1, Known: 2, Duplicates: 1},
		{Known: 3}} {
		list := frames
		if n == 0 {
			list = frames[:2]
		}
		got, err := b.Derive(ctx, list)
		b.must(err)
		if got != want {
			t.Errorf("derive %d: %+v, want %+v", n+1, got, want)
		}
		b.restart()
	}
	route, _ := b.Catalogue().Route(2)
	for n := range uint32(2) {
		e, err := b.Event(parent.Item(n))
		b.must(err)
		if e.State != event.Pending || len(e.Destinations) != len(route.Destinations) {
			t.Errorf("item %d: %+v", n, e)
		}
	}
	if got := b.lease(route.Destinations[0]); len(got) < 2 {
		t.Errorf("%d to deliver", len(got))
	}
	if _, err := b.Derive(ctx, []shmabi.Frame{item(3, 999, 3)}); !errors.Is(err, ErrDerive) {
		t.Errorf("a route that is none: %v", err)
	}
}
