package admin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"sluice/go/internal/event"
	"sluice/go/internal/store"
	pb "sluice/proto/sluice/v1"
	"sluice/shm-abi/shmabi"
)

func (b *bench) exportAll(r *pb.ExportEventsRequest) (list []*pb.ExportedEvent) {
	b.t.Helper()
	stream, err := b.ExportEvents(b.t.Context(), r)
	b.must(err)
	for {
		e, err := receiveWhole(stream.Recv)
		if errors.Is(err, io.EOF) {
			return list
		}
		b.must(err)
		list = append(list, e)
	}
}

// importAll sends messages as they are.
func (b *bench) importAll(list []*pb.ExportedEvent) (*pb.ImportProgress, error) {
	b.t.Helper()
	stream, err := b.ImportEvents(b.t.Context())
	b.must(err)
	for _, e := range list {
		rest := e.GetDetail().GetBody()
		for message := proto.Clone(e).(*pb.ExportedEvent); ; {
			message.Detail.Body = rest[:min(len(rest), pieceBytes)]
			rest = rest[len(message.Detail.Body):]
			message.More = len(rest) > 0
			if err := stream.Send(message); err != nil {
				break // the reply says why
			}
			if !message.More {
				break
			}
			message = &pb.ExportedEvent{Detail: &pb.EventDetail{}}
		}
	}
	b.must(stream.CloseSend())
	var last *pb.ImportProgress
	for {
		next, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return last, nil
		}
		if err != nil {
			return last, err
		}
		last = next
	}
}

// takeLarge stores an event whose body takes several messages.
func (b *bench) takeLarge(body []byte) event.ID {
	b.t.Helper()
	received := uint64(began.UnixNano())
	f, err := shmabi.BuildEvent(shmabi.EventParts{
		Method: "PUT", Target: "/hooks/large", Client: "cn=x\n", Body: body, SourceID: 1,
		Headers: [][2]string{{"X-Id", "large"}, {"X-Raw", "\xff\x01"}, {"X-Raw", "twice"}},
		Peer:    netip.MustParseAddrPort("[2001:db8::1]:4000"), ReceivedNS: received, Position: b.at,
	})
	b.must(err)
	id := event.NewID(b.lane, b.at, received)
	c := f.C()
	c.SetState(uint16(shmabi.StateVerified))
	c.SetAck(uint8(shmabi.AckDelivered))
	c.SetEventID(id)
	c.SetRouteVersion(1)
	c.SetOrderKey(7)
	c.SetDedupKey([16]byte{1, 2})
	c.SetDedupUntilNS(received + 1e12)
	c.SetFlags(uint8(shmabi.VerdictFlagUnverified))
	from := b.at
	b.at += uint64(len(f))
	b.must(b.store.Append(store.Batch{
		Frames: [][]byte{f}, Spans: []event.Span{{Lane: b.lane, From: from, To: b.at}},
	}))
	return id
}

func TestAnotherHostGoesOnWithWhatThisOneExported(t *testing.T) {
	from, to := newBench(t, nil), newBench(t, nil)
	to.commit()
	from.take(1, 3)
	from.finish(1, event.Done)
	from.take(2, 2)
	from.finish(1, event.Retry)
	from.finish(2, event.Dead)
	from.take(1, 1)
	body := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	large := from.takeLarge(body)
	list := from.exportAll(&pb.ExportEventsRequest{})
	if len(list) != 7 {
		t.Fatalf("exported %d events", len(list))
	}
	for n, want := range []*pb.ImportProgress{
		{Imported: 7, Done: true}, {Known: 7, Done: true},
	} {
		got, err := to.importAll(list)
		to.must(err)
		if !proto.Equal(got, want) {
			t.Errorf("import %d: %v, want %v", n+1, got, want)
		}
	}
	again := to.exportAll(&pb.ExportEventsRequest{})
	if len(again) != len(list) {
		t.Fatalf("%d events are there, want %d", len(again), len(list))
	}
	for i, was := range list {
		is := again[i]
		// The import is in the history, and nobody waits any more.
		was.Detail.Acknowledge, is.Detail.Acknowledge = "", ""
		was.Detail.Attempts, is.Detail.Attempts = nil, nil
		for _, d := range is.Detail.Event.Destinations {
			if d.State == "pending" {
				d.NextAttemptNs = 0 // it is due since it came
			}
		}
		if !proto.Equal(is, was) {
			t.Errorf("event %d is\n%.600v, was\n%.600v", i, is, was)
		}
	}
	detail, err := to.GetEvent(t.Context(), &pb.GetEventRequest{Id: large.String()})
	to.must(err)
	if !bytes.Equal(detail.GetBody(), body) || detail.GetAttempts()[0].GetOutcome() != "replay" {
		t.Errorf("a body of %d bytes, history %v", len(detail.GetBody()), detail.GetAttempts())
	}
	// They are found like others, and what was to be delivered is.
	if got := to.exportAll(&pb.ExportEventsRequest{
		Filter: &pb.EventFilter{Type: "type of stripe", State: "retrying"},
	}); len(got) != 2 {
		t.Errorf("%d are retrying, want 2", len(got))
	}
	if n := len(to.store.Lease(1, 100, began.Add(time.Hour))); n != 2 {
		t.Errorf("%d deliveries are due, want the two that were pending", n)
	}
}

func TestTheStateCountsWhereAHistoryDoesNotLeadThere(t *testing.T) {
	from, to := newBench(t, nil), newBench(t, nil)
	to.commit()
	from.take(2, 8)
	list := from.exportAll(&pb.ExportEventsRequest{})
	states := []string{"pending", "retrying", "delivered", "dead"}
	for i, e := range list {
		e.Detail.Event.Destinations[0].State = states[i%4]
		e.Detail.Event.Destinations[0].Attempts = 3
		if i >= 4 { // a history that ended
			e.Detail.Attempts = []*pb.Attempt{
				{Destination: "billing", Outcome: "done", AtNs: 5, Attempt: 1},
				{Destination: "billing", Outcome: "retry", AtNs: 6, Attempt: 2},
			}
		}
	}
	_, err := to.importAll(list)
	to.must(err)
	for i, e := range to.exportAll(&pb.ExportEventsRequest{}) {
		if got := e.GetDetail().GetEvent().GetDestinations()[0].GetState(); got != states[i%4] {
			t.Errorf("event %d is %s, want %s", i, got, states[i%4])
		}
	}
}

func TestWhatCannotBeImportedIsNamed(t *testing.T) {
	from, to := newBench(t, nil), newBench(t, nil)
	to.commit()
	from.take(1, 1)
	good := from.exportAll(&pb.ExportEventsRequest{})[0]
	for what, change := range map[string]func(*pb.ExportedEvent){
		"id":          func(e *pb.ExportedEvent) { e.Detail.Event.Id = "x" },
		"source":      func(e *pb.ExportedEvent) { e.Detail.Event.Source = "nobody" },
		"no source":   func(e *pb.ExportedEvent) { e.Detail.Event.Source = "" },
		"destination": func(e *pb.ExportedEvent) { e.Detail.Event.Destinations[0].Name = "nowhere" },
		"state":       func(e *pb.ExportedEvent) { e.Detail.Event.Destinations[0].State = "lost" },
		"peer":        func(e *pb.ExportedEvent) { e.Detail.Peer = "here" },
		"dedup key":   func(e *pb.ExportedEvent) { e.DedupKey = []byte{1} },
		"time":        func(e *pb.ExportedEvent) { e.Detail.Event.ReceivedNs = 0 },
		"unreadable":  func(e *pb.ExportedEvent) { e.Lost = "the disk lost it" },
		"outcome": func(e *pb.ExportedEvent) {
			e.Detail.Attempts = []*pb.Attempt{{Destination: "billing"}}
		},
		"header":        func(e *pb.ExportedEvent) { e.Detail.Headers[0].Value = []byte("a\nb") },
		"header's name": func(e *pb.ExportedEvent) { e.Detail.Headers[0].Name = []byte("a b: c") },
		"target":        func(e *pb.ExportedEvent) { e.Detail.Target = "/ HTTP/1.1\r\nX: y" },
		"no method":     func(e *pb.ExportedEvent) { e.Detail.Method = "" },
		"method":        func(e *pb.ExportedEvent) { e.Detail.Method = fmt.Sprintf("%025d", 1) },
	} {
		bad := proto.Clone(good).(*pb.ExportedEvent)
		change(bad)
		_, err := to.importAll([]*pb.ExportedEvent{bad})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", what, err)
		}
	}
	if n := len(to.exportAll(&pb.ExportEventsRequest{})); n != 0 {
		t.Errorf("%d events were taken in", n)
	}
	stream, err := to.ImportEvents(t.Context())
	to.must(err)
	to.must(stream.Send(&pb.ExportedEvent{Detail: &pb.EventDetail{Body: []byte("x")}, More: true}))
	to.must(stream.CloseSend())
	if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an event that breaks off: %v", err)
	}
}

// lossy is a store that cannot read one event.
type lossy struct {
	Store
	lost event.ID
	err  error
}

func (l *lossy) Read(seq event.Seq) (Payload, error) {
	p, err := l.Store.Read(seq)
	if err == nil && event.ID(p.Frame().C().EventID()) == l.lost {
		p.Release()
		return nil, l.err
	}
	return p, err
}

func TestAnEventThatCannotBeReadIsNamedInItsPlace(t *testing.T) {
	broken := &lossy{err: store.ErrLost}
	b := newBench(t, func(o *Options) { broken.Store, o.Store = o.Store, broken })
	ids := b.take(1, 3)
	broken.lost = ids[1]
	list := b.exportAll(&pb.ExportEventsRequest{})
	if len(list) != 3 || list[1].GetLost() == "" || list[0].GetLost()+list[2].GetLost() != "" ||
		list[1].GetDetail().GetEvent().GetId() != ids[1].String() {
		t.Errorf("exported %v", list)
	}
	broken.err = store.ErrClosed // that is no damage
	stream, err := b.ExportEvents(t.Context(), &pb.ExportEventsRequest{})
	b.must(err)
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("a store that closes: %v", err)
	}
}
