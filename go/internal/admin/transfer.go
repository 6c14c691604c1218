package admin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"sluice/go/internal/event"
	"sluice/go/internal/store"
	pb "sluice/proto/sluice/v1"
	"sluice/shm-abi/shmabi"
)

const (
	// pieceBytes is how much of a body one message has; requestBytesMax takes it with all else.
	pieceBytes = 512 << 10
	// importBodyMax bounds an imported body in bytes: what a config allows at most.
	importBodyMax = 1 << 30
)

// ExportEvents gives the events that match whole, the oldest first, so that what is under one
// ordering key keeps its order where it is taken in. One that cannot be read is named.
func (s *Service) ExportEvents(r *pb.ExportEventsRequest,
	stream grpc.ServerStreamingServer[pb.ExportedEvent]) error {
	selected, err := s.selection(r.GetFilter())
	if err != nil {
		return err
	}
	for i := range selected {
		selected[i].Oldest = true
	}
	ctx, done := s.streamContext(stream.Context())
	defer done()
	err = walk(ctx, selected, int(r.GetLimit()), s.o.Store.Events, func(e *store.Event) error {
		return s.export(e.ID, stream.Send)
	})
	return s.streamFault(ctx, stream.Context(), err)
}

// export sends one event in as many messages as its body takes.
func (s *Service) export(id event.ID, send func(*pb.ExportedEvent) error) error {
	detail, err := s.o.Store.Event(id)
	if errors.Is(err, store.ErrNotFound) {
		return nil // retention took it meanwhile
	}
	if err != nil {
		return err
	}
	names := s.o.Store.Catalogue()
	payload, err := s.o.Store.Read(detail.Seq)
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, shmabi.ErrFrame) {
		return err
	}
	if err != nil {
		return send(&pb.ExportedEvent{
			Detail: &pb.EventDetail{Event: eventLine(&detail.Event, names)}, Lost: err.Error(),
		})
	}
	out := exportedEvent(&detail, payload, names)
	payload.Release()
	rest := out.Detail.Body
	for message := out; ; {
		message.Detail.Body = rest[:min(len(rest), pieceBytes)]
		rest = rest[len(message.Detail.Body):]
		message.More = len(rest) > 0
		if err := send(message); err != nil || !message.More {
			return err
		}
		message = &pb.ExportedEvent{Detail: &pb.EventDetail{}}
	}
}

func exportedEvent(detail *store.Detail, payload Payload,
	names *event.Catalogue) *pb.ExportedEvent {
	c := payload.Frame().C()
	out := &pb.ExportedEvent{
		Detail: eventDetail(detail, payload, names), OrderKey: c.OrderKey(),
		Unverified: c.Flags()&uint8(shmabi.VerdictFlagUnverified) != 0,
		Client:     append([]byte{}, payload.Client()...),
	}
	if key := c.DedupKey(); key != ([16]byte{}) {
		out.DedupKey, out.DedupUntilNs = key[:], int64(c.DedupUntilNS())
	}
	return out
}

// ImportEvents takes events over from another host, a batch at a time.
func (s *Service) ImportEvents(
	stream grpc.BidiStreamingServer[pb.ExportedEvent, pb.ImportProgress]) error {
	ctx, done := s.streamContext(stream.Context())
	defer done()
	by := "import by " + caller(ctx, "")
	var sums pb.ImportProgress
	var batch []store.Imported
	size := 0
	flush := func() error {
		result, err := s.o.Store.Import(ctx, batch)
		if err != nil {
			return fault(err)
		}
		batch, size = nil, 0
		sums.Imported += uint64(result.Taken - result.Duplicates)
		sums.Known += uint64(result.Known)
		sums.Duplicates += uint64(result.Duplicates)
		return stream.Send(&sums)
	}
	for {
		whole, err := receiveWhole(stream.Recv)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return s.streamFault(ctx, stream.Context(), err)
		}
		one, err := s.imported(whole, by)
		if err != nil {
			return invalid("event %q: %v", whole.GetDetail().GetEvent().GetId(), err)
		}
		if len(batch) == store.ImportMax || size+one.Bytes() > store.ImportBytesMax && size > 0 {
			if err := flush(); err != nil {
				return s.streamFault(ctx, stream.Context(), err)
			}
		}
		batch, size = append(batch, one), size+one.Bytes()
	}
	if len(batch) > 0 {
		if err := flush(); err != nil {
			return s.streamFault(ctx, stream.Context(), err)
		}
	}
	s.o.Log.Info("events imported", "events", sums.Imported, "known", sums.Known,
		"duplicates", sums.Duplicates, "by", by)
	sums.Done = true
	return stream.Send(&sums)
}

// receiveWhole joins the messages of one event.
func receiveWhole(receive func() (*pb.ExportedEvent, error)) (*pb.ExportedEvent, error) {
	whole, err := receive()
	if err != nil {
		return nil, err
	}
	for more := whole.GetMore(); more; {
		next, err := receive()
		if errors.Is(err, io.EOF) {
			return nil, status.Error(codes.InvalidArgument, "the last event ends inside its body")
		}
		if err != nil {
			return nil, err
		}
		if whole.Detail == nil || len(whole.Detail.Body)+len(next.GetDetail().GetBody()) > importBodyMax {
			return nil, invalid("a body is over %d bytes", importBodyMax)
		}
		whole.Detail.Body = append(whole.Detail.Body, next.GetDetail().GetBody()...)
		more = next.GetMore()
	}
	return whole, nil
}

// imported makes the frame and the outcomes of an event that another host exported.
func (s *Service) imported(e *pb.ExportedEvent, by string) (out store.Imported, err error) {
	d, names := e.GetDetail(), s.o.Store.Catalogue()
	id, err := event.ParseID(d.GetEvent().GetId())
	if err != nil {
		return out, err
	}
	if e.GetLost() != "" {
		return out, fmt.Errorf("its host could not read it: %s", e.GetLost())
	}
	parts := shmabi.EventParts{
		Method: d.GetMethod(), Target: d.GetTarget(), Client: string(e.GetClient()), Body: d.GetBody(),
		ReceivedNS: uint64(d.GetEvent().GetReceivedNs()), ConfigVersion: names.ConfigVersion,
	}
	if parts.SourceID, err = number(d.GetEvent().GetSource(), "source", names.Sources); err != nil {
		return out, plainly(err)
	}
	if parts.SourceID == 0 {
		return out, errors.New("it names no source")
	}
	if d.GetEvent().GetReceivedNs() <= 0 {
		return out, errors.New("it was received at no time")
	}
	if text := d.GetPeer(); text != "" {
		if parts.Peer, err = netip.ParseAddrPort(text); err != nil {
			return out, fmt.Errorf("peer: %w", err)
		}
	}
	if err := validRequest(d); err != nil {
		return out, err
	}
	for _, h := range d.GetHeaders() {
		parts.Headers = append(parts.Headers, [2]string{string(h.GetName()), string(h.GetValue())})
	}
	if out.Frame, err = shmabi.BuildEvent(parts); err != nil {
		return out, err
	}
	c := out.Frame.C()
	c.SetState(uint16(shmabi.StateVerified))
	c.SetReplyCode(200)
	c.SetAck(uint8(shmabi.AckDurable)) // nobody waits any more
	c.SetSecretIndex(uint16(d.GetSecretIndex()))
	c.SetEventID(id)
	c.SetOrderKey(e.GetOrderKey())
	c.SetRouteVersion(store.RouteImported)
	if e.GetUnverified() {
		c.SetFlags(uint8(shmabi.VerdictFlagUnverified))
	}
	switch len(e.GetDedupKey()) {
	case 0:
	case 16:
		c.SetDedupKey([16]byte(e.GetDedupKey()))
		c.SetDedupUntilNS(uint64(max(e.GetDedupUntilNs(), 0)))
	default:
		return out, fmt.Errorf("a dedup key of %d bytes; it has 16", len(e.GetDedupKey()))
	}
	for _, to := range d.GetEvent().GetDestinations() {
		list, err := importedOutcomes(e, to, by, names)
		if err != nil {
			return out, err
		}
		out.Outcomes = append(out.Outcomes, list...)
	}
	return out, nil
}

// validRequest refuses what no sender can have sent, because it would be another request where it
// is delivered (RFC 9110 sections 5.5 and 5.6.2).
func validRequest(d *pb.EventDetail) error {
	if !isToken(d.GetMethod()) {
		return fmt.Errorf("%q is no method", d.GetMethod())
	}
	breaks := func(r rune) bool { return r <= ' ' || r == 0x7f }
	if d.GetTarget() == "" || strings.ContainsFunc(d.GetTarget(), breaks) {
		return fmt.Errorf("%q is no target of a request", d.GetTarget())
	}
	for _, h := range d.GetHeaders() {
		if !isToken(string(h.GetName())) || bytes.ContainsAny(h.GetValue(), "\r\n\x00") {
			return fmt.Errorf("header %q cannot have come by HTTP", h.GetName())
		}
	}
	return nil
}

func isToken(text string) bool {
	const tchar = "!#$%&'*+-.^_`|~0123456789" +
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	return text != "" && strings.Trim(text, tchar) == ""
}

// plainly takes the code of an error off.
func plainly(err error) error { return errors.New(status.Convert(err).Message()) }

var outcomeKinds = map[string]event.OutcomeKind{
	event.Done.String(): event.Done, event.Retry.String(): event.Retry,
	event.Dead.String(): event.Dead, event.Replay.String(): event.Replay,
	event.Drop.String(): event.Drop, event.Skip.String(): event.Skip,
}

// importedOutcomes makes a delivery, and then what became of it elsewhere. Where the history does
// not lead to the state that the event says, the state counts.
func importedOutcomes(e *pb.ExportedEvent, to *pb.EventDestination, by string,
	names *event.Catalogue) (list []event.Outcome, err error) {
	dest, err := number(to.GetName(), "destination", names.Destinations)
	if err != nil {
		return nil, plainly(err)
	}
	if dest == 0 {
		return nil, errors.New("a destination has no name")
	}
	want, err := event.ParseState(to.GetState())
	if err != nil || want == event.Duplicate {
		return nil, fmt.Errorf("destination %s: %q is no state of a delivery", to.GetName(),
			to.GetState())
	}
	received := e.GetDetail().GetEvent().GetReceivedNs()
	// It is due since it came, among others in the order of their times.
	list = append(list, event.Outcome{
		Destination: dest, Kind: event.Replay, At: received, Next: received, By: by,
	})
	state := event.Pending
	for _, a := range e.GetDetail().GetAttempts() {
		if a.GetDestination() != to.GetName() {
			continue
		}
		kind, ok := outcomeKinds[a.GetOutcome()]
		if !ok {
			return nil, fmt.Errorf("%q is no outcome of an attempt", a.GetOutcome())
		}
		list = append(list, event.Outcome{
			Destination: dest, Kind: kind, Attempt: uint16(a.GetAttempt()), Code: uint16(a.GetCode()),
			At: a.GetAtNs(), Next: a.GetNextNs(), Err: oneLine(a.GetError()), By: oneLine(a.GetBy()),
			Blocks: a.GetBlocks(),
		})
		switch living := state == event.Pending || state == event.Retrying; {
		case kind == event.Replay:
			state = event.Pending
		case !living: // the store passes it over
		case kind == event.Done, kind == event.Skip:
			state = event.Delivered
		case kind == event.Retry:
			state = event.Retrying
		case kind == event.Dead:
			state = event.DeadLetter
		}
	}
	if state != want {
		list = append(list, ending(want, state, dest, received, to, by)...)
	}
	return list, nil
}

// ending brings a delivery from a state into another.
func ending(want, is event.State, dest uint32, at int64, to *pb.EventDestination,
	by string) (list []event.Outcome) {
	again := event.Outcome{Destination: dest, Kind: event.Replay, At: at, Next: at, By: by}
	if is == event.Delivered || is == event.DeadLetter || want == event.Pending {
		list = append(list, again)
	}
	last := event.Outcome{
		Destination: dest, Attempt: uint16(to.GetAttempts()), At: at, Next: to.GetNextAttemptNs(),
		Err: oneLine(to.GetLastError()),
	}
	switch want {
	case event.Delivered:
		last.Kind = event.Done
	case event.DeadLetter:
		last.Kind = event.Dead
	case event.Retrying:
		last.Kind = event.Retry
	default:
		return list
	}
	return append(list, last)
}

// oneLine is a text as an outcome may hold it.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, text)
	return text[:min(len(text), event.ErrMax)]
}
