package daemon

import (
	"slices"
	"sync"
	"sync/atomic"

	"sluice/go/internal/destination/split"
	"sluice/go/internal/provider"
	"sluice/shm-abi/shmabi"
)

// locked lets goroutines share an identifier, which is one goroutine's at a time.
type locked struct {
	mu   sync.Mutex
	find *provider.Identifier
}

func newLocked(find *provider.Identifier) *locked { return &locked{find: find} }

// identify calls use with the id and the type of a request.
func (l *locked) identify(r *provider.Request, use func(id, kind []byte)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	use(l.find.Identify(r))
}

// identifiers find what the senders of stored events call them, for searches and listings, under
// the config of now: it is in the request, not in what the journal decides by.
type identifiers struct {
	bySource atomic.Pointer[map[string]finder]
}

// finder finds what the sender of one source calls an event, and an item of one that had several.
type finder struct {
	*locked
	item *provider.Batch // of one item; nil: it sends none
}

func newFinder(p *plan, source string) finder {
	f := finder{locked: newLocked(p.identify[source])}
	scheme := p.schemes[idOf(p.catalogue.Sources, source)]
	if scheme != nil && scheme.Batch != nil {
		one := *scheme.Batch
		one.Items = provider.Source{Kind: provider.SourceBody}
		f.item = &one
	}
	return f
}

// identifyItem calls use with the id and the type of an item.
func (f finder) identifyItem(item []byte, use func(id, kind []byte)) {
	list := slices.Concat([]byte{'['}, item, []byte{']'})
	for it, err := range f.item.Split(list) {
		if err != nil {
			break
		}
		use(it.ID, it.Type)
		return
	}
	use(nil, nil)
}

// use takes plans up; where two know a source, the later one counts.
func (i *identifiers) use(plans ...*plan) {
	next := make(map[string]finder)
	for _, p := range plans {
		for name := range p.identify {
			next[name] = newFinder(p, name)
		}
	}
	i.bySource.Store(&next)
}

// describe calls use with the id and the type of a stored event, unless its source is gone.
func (i *identifiers) describe(source string, f shmabi.Frame, use func(id, kind []byte)) {
	sources := i.bySource.Load()
	if sources == nil {
		return
	}
	find, known := (*sources)[source]
	e, err := f.Event()
	if !known || err != nil {
		return
	}
	if find.item != nil {
		if _, _, yes := split.Of(&e); yes {
			find.identifyItem(e.Body(), use)
			return
		}
	}
	r := provider.Request{
		Method: e.Method(), Target: e.Target(), Body: e.Body(),
		ReceivedNS: int64(f.D().ReceivedNS()),
	}
	for n := range e.HeaderCount() {
		name, value := e.Header(n)
		r.Headers = append(r.Headers, provider.Field{Name: name, Value: value})
	}
	find.identify(&r, use)
}
