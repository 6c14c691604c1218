package daemon

import (
	"sync"
	"sync/atomic"

	"sluice/go/internal/provider"
	"sluice/shm-abi/shmabi"
)

// locked lets goroutines share an identifier, which is one goroutine's at a time.
type locked struct {
	mu      sync.Mutex
	find    *provider.Identifier
	request provider.Request // scratch of describe
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
	bySource atomic.Pointer[map[string]*locked]
}

// use takes plans up; where two know a source, the later one counts.
func (i *identifiers) use(plans ...*plan) {
	next := make(map[string]*locked)
	for _, p := range plans {
		for name, find := range p.identify {
			next[name] = newLocked(find)
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
	find := (*sources)[source]
	e, err := f.Event()
	if find == nil || err != nil {
		return
	}
	find.mu.Lock()
	defer find.mu.Unlock()
	r := &find.request
	*r = provider.Request{
		Method: e.Method(), Target: e.Target(), Body: e.Body(),
		ReceivedNS: int64(f.D().ReceivedNS()), Headers: r.Headers[:0],
	}
	for n := range e.HeaderCount() {
		name, value := e.Header(n)
		r.Headers = append(r.Headers, provider.Field{Name: name, Value: value})
	}
	use(find.find.Identify(r))
}
