package reconcile

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/provider"
	"sluice/go/internal/store"
	"sluice/shm-abi/shmabi"
)

// By names this package where an event says why it is to be delivered.
const By = "reconcile"

// Store is what this package asks of a store.
type Store interface {
	Known(source uint32, key [16]byte, at int64) (event.ID, bool)
	Events(store.Filter) (store.Page[store.Event], error)
	Read(event.Seq) (*store.Payload, error)
	Import(context.Context, []store.Imported) (store.ImportResult, error)
	Catalogue() *event.Catalogue
}

// Source is what of a source's config an event is made by, as intake makes them.
type Source struct {
	ID   uint32
	Path string
	// MaxBody is the most bytes of a body.
	MaxBody int64
	// Dedup is the window in which an event is not taken twice.
	Dedup        time.Duration
	Destinations []uint32
	// Identify calls use with the sender's id and type of a request. Both end with use.
	Identify func(r *provider.Request, use func(id, kind []byte))
	// DedupKey is what intake makes of an id.
	DedupKey func(id []byte) [16]byte
	// OrderKey gives the event's ordering key; nil or 0 is none.
	OrderKey func(*provider.Request) uint64
}

// errTooLarge says that a record is over what its source takes.
var errTooLarge = errors.New("its body is larger than max_body")

// shelf is what is stored of one source.
type shelf struct {
	store  Store
	source Source
	lane   event.LaneID // names the events of one run
	taken  uint64
	// stock is the newest state of each resource; nil where a feed lists events.
	stock map[string]time.Time
}

func newShelf(s Store, source Source) *shelf {
	shelf := &shelf{store: s, source: source}
	_, _ = rand.Read(shelf.lane[:]) // it never fails
	return shelf
}

// request is a record as intake would see it.
func (s *shelf) request(r *record) *provider.Request {
	q := &provider.Request{
		Method: []byte("POST"), Target: []byte(s.source.Path), Body: r.body,
		ReceivedNS: time.Now().UnixNano(),
	}
	for _, h := range r.headers {
		q.Headers = append(q.Headers, provider.Field{Name: []byte(h[0]), Value: []byte(h[1])})
	}
	return q
}

// identify gives the sender's id of a record; empty: it has none, or none that the list shows.
func (s *shelf) identify(r *record) (id string) {
	s.source.Identify(s.request(r), func(found, _ []byte) { id = string(found) })
	return id
}

// knows tells whether an event with the sender's id is stored.
func (s *shelf) knows(id string) (bool, error) {
	if id == "" {
		return false, nil
	}
	if _, is := s.store.Known(s.source.ID, s.source.DedupKey([]byte(id)),
		time.Now().UnixNano()); is {
		return true, nil
	}
	found, err := s.store.Events(store.Filter{Source: s.source.ID, ProviderID: id, Limit: 1})
	return len(found.Items) > 0, err
}

// has tells whether a record is here already.
func (s *shelf) has(r *record, id string) (bool, error) {
	if s.stock != nil {
		if at, known := s.stock[resourceOf(r.id)]; known && !at.Before(r.at) {
			return true, nil
		}
	}
	return s.knows(id)
}

// resourceOf is the part of a record's id before its time: orders/1 of orders/1@2026-….
func resourceOf(id string) string {
	name, _, _ := strings.Cut(id, "@")
	return name
}

// take makes records durable and due, in their order.
func (s *shelf) take(ctx context.Context, records []*record) (store.ImportResult, error) {
	var list []store.Imported
	for _, r := range records {
		one, err := s.imported(r)
		if err != nil {
			return store.ImportResult{}, err
		}
		list = append(list, one)
	}
	return s.store.Import(ctx, list)
}

// imported makes the event of a record. It is received now: its window of dedup begins now as well.
func (s *shelf) imported(r *record) (out store.Imported, err error) {
	now := time.Now().UnixNano()
	q := s.request(r)
	q.ReceivedNS = now
	out.Frame, err = shmabi.BuildEvent(shmabi.EventParts{
		Method: "POST", Target: s.source.Path, Headers: r.headers, Body: r.body,
		SourceID: s.source.ID, ReceivedNS: uint64(now),
		ConfigVersion: s.store.Catalogue().ConfigVersion,
	})
	if err != nil {
		return out, fmt.Errorf("an event of the provider's record: %w", err)
	}
	s.taken++
	c := out.Frame.C()
	c.SetState(uint16(shmabi.StateVerified))
	c.SetReplyCode(200)
	c.SetAck(uint8(shmabi.AckDurable))
	c.SetFlags(uint8(shmabi.VerdictFlagUnverified))
	c.SetEventID(event.NewID(s.lane, s.taken, uint64(now)))
	c.SetRouteVersion(store.RouteImported)
	c.SetDedupKey(s.source.DedupKey([]byte(s.identify(r))))
	c.SetDedupUntilNS(uint64(now + int64(s.source.Dedup)))
	if s.source.OrderKey != nil {
		c.SetOrderKey(s.source.OrderKey(q))
	}
	for _, to := range s.source.Destinations {
		out.Outcomes = append(out.Outcomes, event.Outcome{
			Destination: to, Kind: event.Replay, At: now, Next: now, By: By,
		})
	}
	return out, nil
}

// take stock reads which states of resources are stored that were received from a time on.
func (s *shelf) takeStock(ctx context.Context, since time.Time) error {
	s.stock = map[string]time.Time{}
	f := store.Filter{Source: s.source.ID, Since: since.Add(-stockSlack), Limit: 256}
	for n := 0; n < stockMax; {
		page, err := s.store.Events(f)
		if err != nil {
			return err
		}
		for i := range page.Items {
			s.count(&page.Items[i])
		}
		if n += len(page.Items); page.Next == (store.Cursor{}) {
			return nil
		}
		if f.Before = page.Next; ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("more than %d events are stored since %s: ask for less with --since", stockMax,
		since.UTC().Format(time.RFC3339))
}

// count notes the state in one stored request. What cannot be read says nothing.
func (s *shelf) count(e *store.Event) {
	p, err := s.store.Read(e.Seq)
	if err != nil {
		return
	}
	defer p.Release()
	var state struct {
		ID        json.Number `json:"id"`
		UpdatedAt time.Time   `json:"updated_at"`
	}
	if json.Unmarshal(p.Body(), &state) != nil || state.ID == "" || state.UpdatedAt.IsZero() {
		return
	}
	// The topic is the resource and what became of it: orders/create.
	kind := e.Type[:max(strings.LastIndexByte(e.Type, '/'), 0)]
	key := kind + "/" + state.ID.String()
	if state.UpdatedAt.After(s.stock[key]) {
		s.stock[key] = state.UpdatedAt
	}
}
