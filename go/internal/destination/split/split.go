// Package split makes an event of each item of a body that holds several, durably and exactly once.
//
// It delivers nothing itself: the events that it makes go where their route says. The original
// stays as it came, with this as its only destination. It keeps no state and no queue.
//
// # What a crash leaves
//
// Each event's ID follows from the original's and the item's number, and what is durable under its
// ID already is not made again. So whoever was interrupted begins anew.
package split

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
	"sluice/go/internal/provider"
	"sluice/shm-abi/shmabi"
)

// Options describe the batches of one source.
type Options struct {
	// Batch says where the items are; nil: nowhere, and each body goes on whole.
	Batch *provider.Batch
	// Route is the version of the route of what is made.
	Route uint32
	// Dedup is the window in which an item of the same id is a repeat; 0: off.
	Dedup time.Duration
	// OrderKey gives an item's ordering key; nil or 0: none. It may be called from several goroutines.
	OrderKey func(*provider.Request) uint64
	// Read gives the frame of an original, which is the caller's until release.
	Read func(event.Seq) (frame shmabi.Frame, release func(), err error)
	// Derive makes events durable, but for those whose ID is known. At most DeriveMax of them, of
	// DeriveBytesMax bytes or one.
	Derive func(context.Context, []shmabi.Frame) error
	// Whole is told of a body that could not be taken apart; nil: nobody counts.
	Whole func()
	Log   *slog.Logger
}

// Splitter is the destination of originals.
type Splitter struct{ o Options }

var _ destination.Destination = (*Splitter)(nil)

// New makes the splitter of one source.
func New(o Options) *Splitter {
	if o.Whole == nil {
		o.Whole = func() {}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return &Splitter{o}
}

// Close frees nothing.
func (s *Splitter) Close() error { return nil }

// Deliver makes the events of one original durable. A body that cannot be taken apart becomes one
// event, whole: that is its sender's fault and no reason to lose it.
func (s *Splitter) Deliver(ctx context.Context, r *destination.Request) destination.Result {
	frame, release, err := s.o.Read(r.Seq)
	if err != nil {
		return destination.Failure(fmt.Errorf("read the original: %w", err))
	}
	defer release()
	original, err := frame.Event()
	if err != nil {
		return destination.Refusal(fmt.Errorf("read the original: %w", err))
	}
	items, err := s.items(original.Body())
	if err != nil {
		s.o.Whole()
		s.o.Log.Warn("a body is not taken apart and goes on whole", "source", r.Source,
			"event", r.EventID.String(), "why", err)
		items = []item{{Item: provider.Item{Raw: original.Body()}, number: Whole}}
	}
	if err := s.derive(ctx, &original, items); err != nil {
		return destination.Failure(fmt.Errorf("make events of the items: %w", err))
	}
	return destination.Delivery(0)
}

type item struct {
	provider.Item
	number uint32
}

var errNoBatch = errors.New("its scheme names no list of items")

func (s *Splitter) items(body []byte) (list []item, err error) {
	if s.o.Batch == nil {
		return nil, errNoBatch
	}
	for found, err := range s.o.Batch.Split(body) {
		if err != nil {
			return nil, err
		}
		list = append(list, item{found, uint32(len(list))})
	}
	return list, nil
}

// derive makes all items durable, in order, a bounded group at a time.
func (s *Splitter) derive(ctx context.Context, original *shmabi.Event, items []item) error {
	var frames []shmabi.Frame
	size := 0
	flush := func() error {
		defer func() { frames, size = frames[:0], 0 }()
		return s.o.Derive(ctx, frames)
	}
	for i := range items {
		f, err := s.frame(original, &items[i])
		if err != nil {
			return err
		}
		if len(frames) == DeriveMax || size > 0 && size+len(f) > DeriveBytesMax {
			if err := flush(); err != nil {
				return err
			}
		}
		frames, size = append(frames, f), size+len(f)
	}
	if len(frames) == 0 {
		return nil
	}
	return flush()
}

// frame is an event of an item: the original's request with the item as its body. What the original
// was judged to be, the item is.
func (s *Splitter) frame(original *shmabi.Event, it *item) (shmabi.Frame, error) {
	d, c := original.Frame().D(), original.Frame().C()
	id := event.ID(c.EventID())
	parts := shmabi.EventParts{
		Method: string(original.Method()), Target: string(original.Target()),
		Client: string(original.Client()), Peer: original.Peer(), Body: it.Raw,
		SourceID: d.SourceID(), ConfigVersion: d.ConfigVersion(), ReceivedNS: d.ReceivedNS(),
	}
	request := provider.Request{
		Method: original.Method(), Target: original.Target(), Body: it.Raw, Client: original.Client(),
		ReceivedNS: int64(d.ReceivedNS()),
	}
	for i := range original.HeaderCount() {
		name, value := original.Header(i)
		if !destination.Named(name, framing) {
			parts.Headers = append(parts.Headers, [2]string{string(name), string(value)})
			request.Headers = append(request.Headers, provider.Field{Name: name, Value: value})
		}
	}
	plain := len(parts.Headers)
	if it.number != Whole {
		parts.Headers = append(parts.Headers, [2]string{Header, headerValue(id, it.number)})
	}
	f, err := shmabi.BuildEvent(parts)
	if err != nil { // no room for our field: it does without
		parts.Headers = parts.Headers[:plain]
		if f, err = shmabi.BuildEvent(parts); err != nil {
			return nil, err
		}
	}
	own := f.C()
	own.SetState(uint16(shmabi.StateVerified))
	own.SetReplyCode(200)
	own.SetAck(uint8(shmabi.AckDurable)) // nobody waits for it
	own.SetFlags(c.Flags() &^ uint8(shmabi.VerdictFlagDegraded))
	own.SetSecretIndex(c.SecretIndex())
	own.SetEventID(id.Item(it.number))
	own.SetRouteVersion(s.o.Route)
	if s.o.OrderKey != nil {
		own.SetOrderKey(s.o.OrderKey(&request))
	}
	// An id that should have been proven and was not could push out the genuine event.
	if len(it.ID) > 0 && s.o.Dedup > 0 && event.DoubtOf(c.Flags()) == 0 {
		own.SetDedupKey(dedupKey(it.ID))
		own.SetDedupUntilNS(d.ReceivedNS() + uint64(s.o.Dedup))
	}
	return f, nil
}

// dedupKey names an item by its sender's id. It is never that of an original, which may be called
// like one of its items; never all zero, which means none.
func dedupKey(id []byte) [16]byte {
	h := sha256.New()
	h.Write([]byte("item\x00"))
	h.Write(id)
	sum := h.Sum(nil)
	sum[0] |= 1
	return [16]byte(sum[:16])
}
