package daemon

import (
	"sync"
	"sync/atomic"

	"sluice/go/internal/provider"
	"sluice/shm-abi/shmabi"
)

// locked lets goroutines share an identifier, which is one goroutine's at a time.
type locked struct {
	mu   sync.Mutex
	find *provider.Identifier
}

func newLocked(find *provider.Identifier) *locked { return &locked{find: find} }

func (l *locked) identify(r *provider.Request) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	id, _ := l.find.Identify(r)
	return string(id)
}

// identifiers find the sender's own ids of stored events, for listings, under the config of now:
// the id is in the request, not in what the journal decides by.
type identifiers struct {
	bySource atomic.Pointer[map[uint32]*locked]
}

// use takes plans up; where two know a source, the later one counts.
func (i *identifiers) use(plans ...*plan) {
	next := make(map[uint32]*locked)
	for _, p := range plans {
		for id, find := range p.identify {
			next[id] = newLocked(find)
		}
	}
	i.bySource.Store(&next)
}

// of is the id of a stored event; empty where it has none, or its source is gone.
func (i *identifiers) of(f shmabi.Frame) string {
	sources := i.bySource.Load()
	if sources == nil {
		return ""
	}
	find := (*sources)[f.D().SourceID()]
	e, err := f.Event()
	if find == nil || err != nil {
		return ""
	}
	r := provider.Request{
		Method: e.Method(), Target: e.Target(), Body: e.Body(),
		ReceivedNS: int64(f.D().ReceivedNS()),
	}
	for n := range e.HeaderCount() {
		name, value := e.Header(n)
		r.Headers = append(r.Headers, provider.Field{Name: name, Value: value})
	}
	return find.identify(&r)
}
