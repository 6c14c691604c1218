package ingest

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/lane"
	"sluice/go/internal/store"
	"sluice/shm-abi/shmabi"
)

// real is a rig whose journal is the store itself, on a disk.
type real struct {
	t       *testing.T
	dir     string
	shm     string
	store   *store.Store
	control *lane.Control
	service *Service
	planes  []*plane
}

func newReal(t *testing.T) *real {
	t.Helper()
	r := &real{t: t, dir: t.TempDir(), shm: tmpfs(t)}
	var err error
	r.control, err = lane.OpenControl(filepath.Join(r.shm, "control"), testOwner.JournalID)
	must(t, err)
	t.Cleanup(r.control.Close)
	r.open()
	must(t, r.store.PutCatalogue(context.Background(), event.Catalogue{
		ConfigVersion: 1,
		Sources: []event.Named{
			{ID: durably, Name: "durably"}, {ID: atOnce, Name: "at-once"},
			{ID: waiting, Name: "waiting"}, {ID: passing, Name: "passing"},
		},
		Destinations: []event.Named{{ID: first, Name: "archive"}, {ID: second, Name: "billing"}},
		Routes: []event.Route{
			{Version: 10 + durably, Source: durably, Destinations: []uint32{first}},
			{Version: 10 + atOnce, Source: atOnce, Destinations: []uint32{first}},
			{Version: 10 + waiting, Source: waiting, Destinations: []uint32{first, second}},
			{Version: 10 + passing, Source: passing, Destinations: []uint32{first, second}},
		},
	}))
	t.Cleanup(func() { r.close() })
	return r
}

func (r *real) open() {
	r.t.Helper()
	var err error
	r.store, err = store.Open(context.Background(), store.Options{
		Dir: r.dir, Log: discard, SegmentBytes: 4 << 20,
		Repeated: func(repeat, first event.ID) { r.service.Repeated(repeat, first) },
	})
	must(r.t, err)
	must(r.t, r.store.Settle(context.Background()))
	r.service = New(Options{Store: r.store, Control: r.control, Log: discard}, table(r.t))
	r.service.Start()
	for _, p := range r.planes {
		r.attach(p)
	}
}

func (r *real) attach(p *plane) {
	r.t.Helper()
	l, err := lane.Attach(p.path, testOwner)
	must(r.t, err)
	must(r.t, r.service.Attach(l, p.bells(), r.store.Recovery().Lanes[p.id]))
}

func (r *real) plane(s size) *plane {
	r.t.Helper()
	p := newPlane(r.t, r.shm, s)
	r.planes = append(r.planes, p)
	r.attach(p)
	return p
}

func (r *real) close() {
	if r.service != nil {
		r.service.Stop()
		must(r.t, r.store.Close())
		r.service = nil
	}
}

// events are the stored events, newest first.
func (r *real) events() []store.Event {
	r.t.Helper()
	page, err := r.store.Events(store.Filter{})
	must(r.t, err)
	return page.Items
}

func TestAnAnswered2xxIsInTheStoreOfTheNextLife(t *testing.T) {
	r := newReal(t)
	p := r.plane(roomy)
	ids := make(map[event.ID]bool)
	for i := range 50 {
		p.publish(signed(t, durably, fmt.Sprint("d", i), "{}"))
		p.publish(forged(t, durably, fmt.Sprint("f", i), "{}"))
		p.publish(signed(t, atOnce, fmt.Sprint("r", i), "{}"))
	}
	for _, a := range p.take(150) {
		if a.kind == shmabi.ReplyAccepted {
			ids[a.id] = true
		}
	}
	r.close()
	r.open()
	p.publish(signed(t, durably, "last", "{}"))
	eventually(t, "an answer in the next life", func() bool {
		for _, a := range p.drain(1000) {
			if a.kind == shmabi.ReplyAccepted {
				ids[a.id] = true
			}
		}
		return len(ids) == 101
	})
	eventually(t, "all of them listed", func() bool { return len(r.events()) >= 101 })
	found := r.events()
	if len(found) != 101 {
		t.Errorf("%d events, want 101", len(found))
	}
	for _, e := range found {
		if !ids[e.ID] {
			t.Errorf("event %s was answered to nobody", e.ID)
		}
	}
	if damage := r.store.Recovery().Damage; len(damage) > 0 {
		t.Errorf("damage: %v", damage)
	}
}

func TestTheSecondCopyOfARaceOfTwoLanesIsADuplicate(t *testing.T) {
	r := newReal(t)
	one, two := r.plane(roomy), r.plane(roomy)
	for i := range 20 {
		same := signed(t, durably, fmt.Sprint(i), "{}")
		for _, p := range []*plane{one, two} {
			f, _ := p.frame(same)
			p.write(f)
		}
		one.show()
		two.show()
	}
	one.take(20)
	two.take(20)
	eventually(t, "20 events that are no duplicates", func() bool {
		states := make(map[event.State]int)
		for _, e := range r.events() {
			states[e.State]++
		}
		return states[event.Pending] == 20
	})
}

func TestARaceOfTwoLanesAtDeliveredIsAnsweredByTheFirst(t *testing.T) {
	r := newReal(t)
	one, two := r.plane(roomy), r.plane(roomy)
	const pairs = 20
	for i := range pairs {
		same := signed(t, waiting, fmt.Sprint(i), "{}")
		same.until = bootNS() + uint64(time.Hour)
		for _, p := range []*plane{one, two} {
			f, _ := p.frame(same)
			p.write(f)
		}
		one.show()
		two.show()
	}
	// Of each pair one is told at once that the other is under way, whoever found that out.
	told := make(map[event.ID]bool)
	eventually(t, "a 202 of each pair", func() bool {
		for _, p := range []*plane{one, two} {
			for _, a := range p.drain(100) {
				if a.kind != shmabi.ReplyQueued || a.id == idOf(p, a.position) || told[a.id] {
					t.Fatalf("answered %v", a)
				}
				told[a.id] = true
			}
		}
		return len(told) == pairs
	})
	for range pairs {
		for _, to := range []uint32{first, second} {
			id := r.conclude(to, event.Done)
			if !told[id] {
				t.Fatalf("%s was delivered, a repeat", id)
			}
			r.service.Concluded(Conclusion{ID: id, Destination: to, Kind: event.Done})
		}
	}
	eventually(t, "a 200 of each pair", func() bool {
		for _, p := range []*plane{one, two} {
			for _, a := range p.drain(100) {
				if a.kind != shmabi.ReplyAccepted || !told[a.id] {
					t.Fatalf("answered %v", a)
				}
				delete(told, a.id)
			}
		}
		return len(told) == 0
	})
}

func TestTheEndOfALaneIsFoundByTheNextLife(t *testing.T) {
	r := newReal(t)
	p := r.plane(roomy)
	p.publish(signed(t, durably, "evt_1", "{}"))
	p.take(1)
	p.die()
	r.service.Orphaned(p.generation)
	eventually(t, "the end of the lane", func() bool { return len(r.service.Lanes()) == 0 })
	if exists(p.path) {
		t.Error("the file is still there")
	}
	r.planes = nil
	r.close()
	r.open()
	recovery := r.store.Recovery()
	if _, living := recovery.Lanes[p.id]; living || !recovery.Ended[p.id] {
		t.Errorf("lanes %v, ended %v", recovery.Lanes, recovery.Ended)
	}
}
