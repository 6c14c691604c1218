package daemon

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"sluice/go/internal/config"
	"sluice/go/internal/event"
	"sluice/go/internal/ingest"
	"sluice/go/internal/keyring"
	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
	"sluice/go/internal/tlsfiles"
	pb "sluice/proto/sluice/v1"
	"sluice/shm-abi/shmabi"
)

// plan is one config made ready: names with their numbers, how frames are judged, what the data
// plane routes by.
type plan struct {
	config    *config.Config
	catalogue event.Catalogue
	table     *ingest.Table
	snapshot  *pb.Snapshot // its listeners in the config's order
	files     *tlsfiles.Files
	// schemes and proofs are how the sources are proven, by number: proofs are empty places until
	// the secrets of now are put into them.
	schemes map[uint32]*provider.Scheme
	proofs  map[uint32]*atomic.Pointer[ingest.Proof]
	// splittings are of the sources whose originals are taken apart, by name.
	splittings map[string]splitting
	secrets    *keyring.Set // that fills them
	// identify finds the sender's own id and type of an event again, by the name of its source.
	identify map[string]*provider.Identifier
}

// newPlan gives every name of a config its number: the one it had before, or a new one. Numbers are
// never used again, and a route keeps its version while it goes to the same destinations.
func newPlan(c *config.Config, before *event.Catalogue) (*plan, error) {
	next := event.Catalogue{ConfigVersion: 1}
	if before != nil {
		next = *before
		next.ConfigVersion++
	}
	next.Sources, next.Destinations = slices.Clone(next.Sources), slices.Clone(next.Destinations)
	next.Routes = slices.Clone(next.Routes)
	p := &plan{
		config: c,
		table: &ingest.Table{
			Version: next.ConfigVersion, Sources: make(map[uint32]*ingest.Source),
		},
		snapshot: &pb.Snapshot{
			ConfigVersion: next.ConfigVersion,
			Http: &pb.HttpBounds{
				MaxHeader: uint32(c.HTTP.MaxHeader), MaxBody: uint64(c.HTTP.MaxBody),
				HeaderTimeoutNs:     uint64(c.HTTP.HeaderTimeout),
				BodyTimeoutNs:       uint64(c.HTTP.BodyTimeout),
				IdleTimeoutNs:       uint64(c.HTTP.IdleTimeout),
				MaxConnections:      uint32(c.HTTP.MaxConnections),
				MaxConnectionsPerIp: uint32(c.HTTP.MaxConnectionsPerIP),
				MinBodyRate:         uint64(c.HTTP.MinBodyRate),
				ReceiveMemory:       uint64(c.HTTP.ReceiveMemory),
				HandshakeTimeoutNs:  uint64(c.HTTP.HandshakeTimeout),
				HandshakeRate:       uint32(c.HTTP.HandshakeRate),
			},
		},
		schemes:    make(map[uint32]*provider.Scheme),
		proofs:     make(map[uint32]*atomic.Pointer[ingest.Proof]),
		splittings: make(map[string]splitting),
		identify:   make(map[string]*provider.Identifier),
	}
	for i := range c.Sources {
		if err := p.addSource(&c.Sources[i], &next); err != nil {
			return nil, fmt.Errorf("source %s: %w", c.Sources[i].Name, err)
		}
	}
	for i := range c.Destinations { // one that no source names has a number, too
		numberOf(&next.Destinations, c.Destinations[i].Name)
	}
	p.catalogue = next
	return p, nil
}

func (p *plan) addSource(s *config.Source, names *event.Catalogue) error {
	id := numberOf(&names.Sources, s.Name)
	if id > shmabi.SourcesMax {
		return fmt.Errorf("it would be source number %d; there are %d in the life of a data directory",
			id, shmabi.SourcesMax)
	}
	from, err := provider.ParseIDFrom(s.IDFrom.String())
	if err != nil {
		return err
	}
	scheme, err := schemeOf(s)
	if err != nil {
		return err
	}
	identifier, err := provider.NewIdentifier(scheme, from)
	if err != nil {
		return err
	}
	var to []uint32
	for _, name := range s.Deliver {
		to = append(to, numberOf(&names.Destinations, name))
	}
	order, err := orderKey(s, id)
	if err != nil {
		return err
	}
	originals := p.addSplitting(s, id, names, to, order)
	p.identify[s.Name], p.schemes[id] = identifier, scheme
	p.proofs[id] = new(atomic.Pointer[ingest.Proof])
	p.table.Sources[id] = &ingest.Source{
		ID: id, Name: s.Name, Route: routeOf(names, id, originals), Ack: ackOf(s.Acknowledge),
		Proof: p.proofs[id], Unverified: scheme.Unsigned(), Enforce: s.Enforce, URL: s.URL,
		Dedup: s.Dedup, OrderKey: order, Destinations: to, Respond: s.Respond == "destination",
	}
	p.snapshot.Sources = append(p.snapshot.Sources, &pb.Source{
		Id: id, Slot: id - 1, Name: s.Name, Path: s.Path, Methods: s.Methods,
		Acknowledge: pb.Acknowledge(ackOf(s.Acknowledge)),
		MaxBody:     uint64(s.MaxBody), BudgetNs: uint64(budget(s.Deadline, scheme)),
		ShedStatus: uint32(s.ShedStatus), Rate: rateOf(s.Rate), AllowFrom: prefixTexts(s.AllowFrom),
		Priority:     priorityOf(s.Priority),
		NeverRetries: scheme.Contract.NeverRetries.Or(false),
		IdPlaces:     idPlacesOf(scheme, from), RetryHeaders: scheme.Contract.RetryHeaders.Value,
		Handshakes: handshakesOf(scheme), Probes: scheme.Contract.ProbesBadSignatures.Or(false),
		GuardAfter:     guardAfter(&scheme.Contract),
		AcceptedStatus: acceptedStatus(&scheme.Contract), QueuedStatus: queuedStatus(&scheme.Contract),
		EmptySuccess: scheme.Contract.EmptySuccess.Or(false),
	})
	return nil
}

// slots are the places of the sources in the counters.
func (p *plan) slots() []int {
	list := make([]int, 0, len(p.snapshot.Sources))
	for _, s := range p.snapshot.Sources {
		list = append(list, int(s.Slot))
	}
	return list
}

// longestBudget is that of the most patient sender.
func (p *plan) longestBudget() (longest time.Duration) {
	for _, s := range p.snapshot.Sources {
		longest = max(longest, time.Duration(s.BudgetNs))
	}
	return longest
}

// numberOf is the number of a name, a new one if it had none.
func numberOf(list *[]event.Named, name string) uint32 {
	highest := uint32(0)
	for _, n := range *list {
		if n.Name == name {
			return n.ID
		}
		highest = max(highest, n.ID)
	}
	*list = append(*list, event.Named{ID: highest + 1, Name: name})
	return highest + 1
}

// routeOf is the version of the route from a source to exactly these destinations, a new one if it
// never had any.
func routeOf(names *event.Catalogue, source uint32, to []uint32) uint32 {
	highest := uint32(0)
	for _, r := range names.Routes {
		highest = max(highest, r.Version)
		if r.Source == source && slices.Equal(r.Destinations, to) {
			return r.Version
		}
	}
	names.Routes = append(names.Routes,
		event.Route{Version: highest + 1, Source: source, Destinations: to})
	return highest + 1
}

// schemeOf is how the requests of a source are proven.
func schemeOf(s *config.Source) (*provider.Scheme, error) {
	switch {
	case s.MutualTLS:
		return provider.ClientScheme(s.ClientNames), nil
	case s.Verify != nil:
		return catalogue.Parse(s.Verify.YAML)
	}
	scheme, ok := catalogue.Lookup(s.Provider)
	if !ok {
		return nil, fmt.Errorf("provider %q is not in the catalogue", s.Provider)
	}
	return scheme, nil
}

// orderKey compiles order_by; nil is no order.
func orderKey(s *config.Source, id uint32) (func(*provider.Request) uint64, error) {
	switch s.OrderBy.Kind {
	case "", "none":
		return nil, nil
	case "source":
		key := ingest.HashKey(id, nil)
		return func(*provider.Request) uint64 { return key }, nil
	}
	from, err := provider.ParseIDFrom(s.OrderBy.String())
	if err != nil {
		return nil, err
	}
	find, err := provider.NewIdentifier(nil, from)
	if err != nil {
		return nil, err
	}
	shared := newLocked(find)
	return func(r *provider.Request) uint64 {
		var key uint64
		shared.identify(r, func(value, _ []byte) {
			if len(value) > 0 {
				key = ingest.HashKey(id, value)
			}
		})
		return key
	}, nil
}

func ackOf(name string) shmabi.Ack {
	switch name {
	case "ring":
		return shmabi.AckRing
	case "delivered":
		return shmabi.AckDelivered
	}
	return shmabi.AckDurable
}

// budget is how long after a request's first byte an answer still helps: the sender's deadline
// without the time that its connection took and a margin for the way back. An unknown connect time
// counts a tenth of the deadline, at most a second.
func budget(deadline time.Duration, scheme *provider.Scheme) time.Duration {
	const margin = 50 * time.Millisecond
	connect := scheme.Contract.ConnectDeadline.Or(min(deadline/10, time.Second))
	return max(deadline-connect-margin, margin)
}

func rateOf(r *config.Rate) float64 {
	if r == nil {
		return 0
	}
	return r.PerSecond()
}
