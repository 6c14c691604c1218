package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"sluice/go/internal/event"
	"sluice/go/internal/store"
	pb "sluice/proto/sluice/v1"
	"sluice/shm-abi/shmabi"
)

var testNames = event.Catalogue{
	ConfigVersion: 1,
	Sources:       []event.Named{{ID: 1, Name: "github"}, {ID: 2, Name: "stripe"}},
	Destinations:  []event.Named{{ID: 1, Name: "billing"}, {ID: 2, Name: "archive"}},
	Routes: []event.Route{
		{Version: 1, Source: 1, Destinations: []uint32{1}},
		{Version: 2, Source: 2, Destinations: []uint32{1, 2}},
	},
}

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// bench is a service over a real store, reached over a connection in memory.
type bench struct {
	t       *testing.T
	store   *store.Store
	service *Service
	pb.AdminClient
	conn  *grpc.ClientConn
	facts Facts
	pin   pin
	lane  event.LaneID
	at    uint64
	count int
}

// pin is a limiter that does what it is told.
type pin struct {
	limit uint64
	until time.Time
	more  Limits
}

func (p *pin) Limits() Limits {
	l := p.more
	l.Algorithm, l.Limit, l.Min, l.Max, l.PinnedUntil = "fixed", p.limit, 2, 64, p.until
	l.HoldBudget = time.Second
	return l
}

func (p *pin) Pin(limit uint64, span time.Duration) error {
	if limit < 2 || limit > 64 {
		return fmt.Errorf("the limit is between 2 and 64, not %d", limit)
	}
	p.limit, p.until = limit, began.Add(span)
	return nil
}

func (p *pin) Release() { *p = pin{limit: 16} }

func newBench(t *testing.T, change func(*Options)) *bench {
	t.Helper()
	b := &bench{t: t, pin: pin{limit: 16}, lane: event.LaneID{1}}
	s, err := store.Open(t.Context(), store.Options{
		Dir: t.TempDir(), SegmentBytes: 1 << 20, Log: slog.New(slog.DiscardHandler),
		LockWait: -1, Retention: store.Retention{MaxAge: -1},
		Now: func() time.Time { return began.Add(time.Hour) },
		Describe: func(source string, f shmabi.Frame, use func(id, kind []byte)) {
			if e, err := f.Event(); err == nil && e.HeaderCount() > 0 {
				_, value := e.Header(0)
				use(value, []byte("type of "+source))
			}
		},
	})
	b.must(err)
	b.must(s.Settle(t.Context()))
	b.must(s.PutCatalogue(t.Context(), testNames))
	b.store = s
	o := Options{
		Store: FromStore(s), Facts: func() Facts { return b.facts }, Limiter: &b.pin,
		Reload:  func(context.Context) (uint32, error) { return 2, nil },
		Drain:   func() error { return nil },
		Version: "v1", Now: func() time.Time { return began.Add(time.Hour) },
		Log: slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&o)
	}
	b.service = New(o)
	pipe := bufconn.Listen(1 << 20)
	server := newServer(b.service)
	served := make(chan error, 1)
	go func() { served <- server.Serve(pipe) }()
	b.conn, err = grpc.NewClient("passthrough:bench",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return pipe.DialContext(ctx)
		}), grpc.WithTransportCredentials(insecure.NewCredentials()))
	b.must(err)
	b.AdminClient = pb.NewAdminClient(b.conn)
	t.Cleanup(func() {
		b.service.Close()
		b.must(b.conn.Close())
		server.Stop()
		if err := <-served; !errors.Is(err, grpc.ErrServerStopped) {
			b.must(err)
		}
		b.must(s.Close())
	})
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// take stores n events of a source, one second apart, and gives their ids.
func (b *bench) take(source uint32, n int) []event.ID {
	b.t.Helper()
	from := b.at
	var batch store.Batch
	var ids []event.ID
	for range n {
		received := uint64(began.Add(time.Duration(b.count) * time.Second).UnixNano())
		f, err := shmabi.BuildEvent(shmabi.EventParts{
			Method: "POST", Target: "/hooks/one?x=1",
			Headers: [][2]string{{"X-Id", fmt.Sprintf("evt-%d", b.count)}, {"X-Raw", "\xff"}},
			Body:    fmt.Appendf(nil, `{"n":%d}`, b.count),
			Peer:    netip.MustParseAddrPort("192.0.2.1:4000"), SourceID: source,
			ReceivedNS: received, Position: b.at,
		})
		b.must(err)
		id := event.NewID(b.lane, b.at, received)
		c := f.C()
		c.SetState(uint16(shmabi.StateVerified))
		c.SetAck(uint8(shmabi.AckDurable))
		c.SetSecretIndex(1)
		c.SetEventID(id)
		c.SetRouteVersion(source) // routes have their source's number here
		b.at += uint64(len(f))
		b.count++
		batch.Frames = append(batch.Frames, f)
		ids = append(ids, id)
	}
	batch.Spans = []event.Span{{Lane: b.lane, From: from, To: b.at}}
	b.must(b.store.Append(batch))
	return ids
}

// finish ends all due deliveries of a destination in one way.
func (b *bench) finish(dest uint32, kind event.OutcomeKind) {
	b.t.Helper()
	// The queues fill behind the journal; a listing waits for that.
	_, err := b.store.Events(store.Filter{Limit: 1})
	b.must(err)
	now := began.Add(time.Hour)
	for _, d := range b.store.Lease(dest, 1<<20, now) {
		o := event.Outcome{
			Seq: d.Seq, Destination: dest, Kind: kind, Attempt: d.Attempt, Code: 200,
			At: now.UnixNano(),
		}
		if kind != event.Done {
			o.Code, o.Err = 503, "the destination answered 503"
		}
		if kind == event.Retry {
			o.Next = now.Add(time.Minute).UnixNano()
		}
		b.store.Finish(o)
	}
	b.must(b.store.Append(store.Batch{}))
}

// commit keeps the journal going while operators' commands wait for it.
func (b *bench) commit() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-b.store.Work():
				if err := b.store.Append(store.Batch{}); err != nil {
					b.t.Error(err)
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	b.t.Cleanup(func() { cancel(); <-ended })
}
