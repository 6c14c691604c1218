package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"

	"sluice/go/internal/admin"
	"sluice/go/internal/config"
	"sluice/go/internal/event"
	"sluice/go/internal/store"
	"sluice/shm-abi/shmabi"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is a daemon that is not there: an admin API over a few events that never change.
type world struct {
	events []store.Detail
	frames map[event.Seq]shmabi.Frame
	limit  uint64
	until  time.Time

	breakers []admin.Breaker
}

var worldNames = &event.Catalogue{
	Sources:      []event.Named{{ID: 1, Name: "github"}, {ID: 2, Name: "stripe"}},
	Destinations: []event.Named{{ID: 1, Name: "billing"}, {ID: 2, Name: "archive"}},
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{frames: map[event.Seq]shmabi.Frame{}, limit: 16, breakers: worldBreakers()}
	w.add(t, 1, "evt-1", "{\"n\":1}\n", deliveries{{Destination: 1, State: event.Delivered,
		Attempts: 1, Code: 200}})
	w.events[0].Type = "push"
	w.add(t, 2, "evt-2", "\x00\x01", deliveries{
		{Destination: 1, State: event.Delivered, Attempts: 2, Code: 200},
		{Destination: 2, State: event.DeadLetter, Attempts: 16, Code: 503,
			LastError: "answered 503\x1b[2J", At: noon.Add(time.Minute)},
	})
	w.add(t, 1, "", "{}", deliveries{{Destination: 1, State: event.Retrying, Attempts: 3,
		Next: noon.Add(time.Hour), LastError: "no answer within 10s"}})
	return w
}

type deliveries = []store.DeliveryState

func (w *world) add(t *testing.T, source uint32, providerID, body string, to deliveries) {
	t.Helper()
	n := len(w.events)
	received := noon.Add(time.Duration(n) * time.Second)
	f, err := shmabi.BuildEvent(shmabi.EventParts{
		Method: "POST", Target: "/hooks/" + worldNames.SourceName(source),
		Headers: [][2]string{{"Host", "hooks.example.test"}, {"X-Name", "caf\xe9"}}, Body: []byte(body),
		Peer: netip.MustParseAddrPort("192.0.2.7:4242"), SourceID: source,
		ReceivedNS: uint64(received.UnixNano()),
	})
	if err != nil {
		t.Fatal(err)
	}
	f.C().SetAck(uint8(shmabi.AckDurable))
	state := event.Duplicate
	for _, d := range to {
		state = min(state, d.State)
	}
	seq := event.NewSeq(uint64(n+1), 0)
	w.frames[seq] = f
	w.events = append(w.events, store.Detail{
		Event: store.Event{
			Seq: seq, ID: event.NewID(event.LaneID{1}, uint64(n), uint64(received.UnixNano())),
			Source: source, ProviderID: providerID, Received: received, Size: uint32(len(body)),
			State: state, Destinations: to,
		},
		Attempts: []event.Outcome{{Seq: seq, Destination: 1, Kind: event.Done, Attempt: 1, Code: 200,
			At: received.Add(time.Second).UnixNano()}},
	})
}

func (w *world) Catalogue() *event.Catalogue { return worldNames }

func (w *world) Stats() store.Stats {
	return store.Stats{
		JournalBytes: 64 << 20, Events: 3, Oldest: noon, Writable: true, Durable: 9, Applied: 9,
		Sources: []store.SourceStats{
			{Source: 1, Accepted: 2}, {Source: 2, Accepted: 1, Duplicates: 4},
		},
		Destinations: []store.DestinationStats{
			{Destination: 1, Backlog: 1, Oldest: noon}, {Destination: 2, Dead: 1},
		},
	}
}

func (w *world) Events(f store.Filter) (store.Page[store.Event], error) {
	var page store.Page[store.Event]
	events := slices.Clone(w.events)
	if !f.Oldest {
		slices.Reverse(events)
	}
	for _, d := range events {
		e := d.Event
		if (f.Type != "" && f.Type != e.Type) ||
			(f.Source != 0 && f.Source != e.Source) || (f.State != 0 && f.State != e.State) ||
			(!f.ID.IsZero() && f.ID != e.ID) || (f.Limit > 0 && len(page.Items) == f.Limit) ||
			(!f.Since.IsZero() && e.Received.Before(f.Since)) {
			continue
		}
		page.Items = append(page.Items, e)
	}
	return page, nil
}

func (w *world) Event(id event.ID) (store.Detail, error) {
	for _, d := range w.events {
		if d.ID == id {
			return d, nil
		}
	}
	return store.Detail{}, fmt.Errorf("%w: %s", store.ErrNotFound, id)
}

// lent is a frame that nobody has to give back.
type lent struct{ *shmabi.Event }

func (lent) Release() {}

func (w *world) Read(seq event.Seq) (admin.Payload, error) {
	e, err := w.frames[seq].Event()
	return lent{&e}, err
}

func (w *world) Tail(ctx context.Context, _ store.Filter) iter.Seq2[store.Event, error] {
	return func(yield func(store.Event, error) bool) {
		for _, d := range w.events {
			if !yield(d.Event, nil) {
				return
			}
		}
		<-ctx.Done()
	}
}

func (w *world) DeadLetters(f store.Filter) (store.Page[store.DeadLetter], error) {
	var page store.Page[store.DeadLetter]
	events, err := w.Events(store.Filter{Source: f.Source, ID: f.ID})
	for _, e := range events.Items {
		for _, d := range e.Destinations {
			if d.State == event.DeadLetter {
				page.Items = append(page.Items, store.DeadLetter{
					Seq: e.Seq, ID: e.ID, Source: e.Source, Destination: d.Destination,
					Attempts: d.Attempts, Code: d.Code, LastError: d.LastError, At: d.At,
				})
			}
		}
	}
	return page, err
}

func (w *world) ReplayEvents(_ context.Context, f store.Filter, r store.Replay) (int, error) {
	page, err := w.Events(f)
	return picked(page.Items, r, func(e store.Event) event.ID { return e.ID }), err
}

func (w *world) ReplayDead(_ context.Context, f store.Filter, r store.Replay) (int, error) {
	page, err := w.DeadLetters(f)
	return picked(page.Items, r, func(d store.DeadLetter) event.ID { return d.ID }), err
}

// picked counts what a replay is about.
func picked[T any](items []T, r store.Replay, id func(T) event.ID) (n int) {
	for _, item := range items {
		if r.IDs == nil || slices.Contains(r.IDs, id(item)) {
			n++
		}
	}
	return n
}

func (w *world) DropDead(_ context.Context, f store.Filter, _, _ string) (int, error) {
	page, err := w.DeadLetters(f)
	return len(page.Items), err
}

func (w *world) Import(_ context.Context, list []store.Imported) (r store.ImportResult, err error) {
	for _, e := range list {
		if id := event.ID(e.Frame.C().EventID()); w.knows(id) {
			r.Known++
			continue
		}
		r.Taken++
	}
	return r, nil
}

func (w *world) knows(id event.ID) bool {
	_, err := w.Event(id)
	return err == nil
}

func (w *world) Limits() admin.Limits {
	return admin.Limits{
		Algorithm: "fixed", Limit: w.limit, Min: 2, Max: 4096, PinnedUntil: w.until, MaxHeld: 1024,
		HoldBudget: 2500 * time.Millisecond, Inflight: 3, Held: 1,
		Base: 15.1875, ServiceTime: 4217 * time.Microsecond, Throughput: 3551.4,
		HoldBound: 10 * time.Millisecond, ShareRate: 40.5,
		Changes: []admin.LimitChange{
			{At: noon.Add(2 * time.Second), From: 16, To: 15.1875, Reason: "slope"},
			{At: noon, From: 16, To: 16, Reason: "restart"},
		},
	}
}

func (w *world) Pin(limit uint64, span time.Duration) error {
	if limit > 4096 {
		return errors.New("the limit is between 2 and 4096")
	}
	w.limit, w.until = limit, noon.Add(span)
	return nil
}

func (w *world) Release() { w.limit, w.until = 16, time.Time{} }

func (w *world) facts() admin.Facts {
	return admin.Facts{
		Ready: true, Generation: 2, ConfigVersion: 3, Uptime: 90 * time.Second,
		Listeners: []string{"127.0.0.1:8080"},
		Admission: admin.Admission{Limit: w.limit, Inflight: 3, Held: 1, Overloaded: true,
			OverloadedClasses: []string{"repeat", "low_over_share"}},
		Sources: []admin.Source{{Name: "github", Duplicates: 1, Unauthorized: 5, Refused: 7,
			RefusedInRow: 2, Guarded: true, Secrets: []admin.Secret{
				{Origin: "env:GITHUB_SECRET", Verified: 7, LastUsed: noon},
				{Origin: "file:/run/secrets/github", KeyID: "k1", NotAfter: noon.AddDate(-5, 0, 0)},
				{Origin: "command:vault", Role: "next", NotBefore: noon.AddDate(200, 0, 0)},
				{Origin: "handshake:9f86d081", NotAfter: noon.AddDate(200, 0, 0)},
			}}},
		Destinations: []admin.Destination{
			{Name: "billing", Breaker: "closed", Inflight: 1, Limit: 16},
			{Name: "archive", Breaker: "open"},
		},
		DataPlane: admin.DataPlane{Pid: 4711, Driver: "io_uring", Restarts: 1},
		Problems:  []string{"archive answers nothing"},
		JournalID: [16]byte{0xab},
	}
}

// serve makes the world reachable and gives its address.
func (w *world) serve(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := admin.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	service := w.service()
	server := admin.NewUnixServer(service)
	serveOn(t, service, server, l)
	return "unix:" + path
}

// serveTCP is the same over the network, for whoever has the token.
func (w *world) serveTCP(t *testing.T, token string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	service := w.service()
	server, err := admin.NewTCPServer(service, admin.TCP{Token: []byte(token)})
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, service, server, l)
	return l.Addr().String()
}

func (w *world) service() *admin.Service {
	reloads, upgrades := 0, 0
	return admin.New(admin.Options{
		Store: w, Facts: w.facts, Limiter: w, Version: "1.0", Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return noon.Add(time.Hour) }, Faults: w.board(), Gaps: ledger{},
		Breakers: w, Reconciler: w,
		Reload: func(context.Context) (uint32, error) {
			if reloads++; reloads > 1 {
				return 0, config.Faults{{File: "sluice.yaml", Line: 3, Problem: "no such key"}}
			}
			return 4, nil
		},
		Upgrade: func(_ context.Context, control bool, say func(string)) (uint32, error) {
			say("look at the program")
			if upgrades++; upgrades > 2 && !control {
				return 0, errors.New("data plane 5: it ended before it was ready (exit status 1)")
			}
			return uint32(2 + upgrades), nil
		},
		Drain: func() error { return nil },
	})
}

func serveOn(t *testing.T, service *admin.Service, server *grpc.Server, l net.Listener) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		service.Close()
		server.Stop()
		if err := <-ended; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
}
