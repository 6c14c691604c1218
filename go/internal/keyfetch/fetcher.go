package keyfetch

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/go/internal/provider"
)

// Options of a Fetcher. The zero value is right for production.
type Options struct {
	// Roots are who may sign the certificates of servers and of senders; nil: those of the system.
	Roots *x509.CertPool
	// AllowPrivate lets servers have addresses that are not public: loopback, private networks.
	AllowPrivate bool
	// Now is the clock; nil: the real one.
	Now func() time.Time
	// Log gets a line when a place changes its state; nil: none.
	Log *slog.Logger
}

// Fetcher is a provider.Keys. It is safe for concurrent use.
type Fetcher struct {
	options Options
	client  *http.Client
	context context.Context
	stop    context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	places  map[place]*entry
	fetches int
	// tokens is how many new places may be asked now, counted at filled.
	tokens int
	filled time.Time
}

// place is all that makes a difference to what is fetched and how it is read.
type place struct {
	form                  provider.RemoteForm
	url, id, at, name     string
	user, password, posts string
}

// entry is what is known about a place. All fields are guarded by the lock of the Fetcher.
type entry struct {
	keys    map[string]*provider.PublicKey // by id; the only one of its place has ""
	fetched time.Time                      // when keys came
	fresh   time.Time                      // until when they need no fetch
	next    time.Time                      // no fetch before
	wait    time.Duration                  // the last wait after a failure
	used    time.Time
	busy    bool
	refused bool
	fault   error // of the last fetch
}

// New makes a Fetcher. Close ends it.
func New(o Options) *Fetcher {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f := &Fetcher{
		options: o, client: newClient(o), places: map[place]*entry{}, tokens: newPlacesMax,
		filled: o.Now(),
	}
	f.context, f.stop = context.WithCancel(context.Background())
	return f
}

// Close ends all fetches and waits for them. Afterwards nothing new is fetched.
func (f *Fetcher) Close() {
	f.stop()
	f.running.Wait()
	f.client.CloseIdleConnections()
}

// Key is of provider.Keys.
func (f *Fetcher) Key(name provider.KeyName) (*provider.PublicKey, provider.KeyState) {
	now := f.options.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	p, id := placeOf(name)
	e := f.places[p]
	if e == nil {
		if byStranger(name.From) && !f.mayBegin(now) {
			return nil, provider.KeyPending
		}
		e = &entry{}
		f.places[p] = e
	}
	e.used = now
	trusted := len(e.keys) > 0 && now.Sub(e.fetched) < staleMax
	key := e.keys[id]
	switch {
	case trusted && key != nil:
		if now.After(e.fresh) {
			f.begin(p, e, name, now)
		}
		return key, provider.KeyKnown
	case e.refused && now.Before(e.next):
		return nil, provider.KeyUnknown
	case trusted && !e.busy && now.Sub(e.fetched) < askAgain:
		return nil, provider.KeyUnknown
	}
	f.begin(p, e, name, now)
	return nil, provider.KeyPending
}

// Warm fetches the keys of a scheme whose place is known before any request.
func (f *Fetcher) Warm(s *provider.Scheme) {
	for _, remote := range s.Remotes() {
		if remote.URL != "" && remote.Form != provider.RemoteJWK {
			f.Key(provider.KeyName{From: remote, URL: remote.URL})
		}
	}
}

// Place is a place for people.
type Place struct {
	URL string
	// Keys is how many keys are known from there, and Fetched when they came.
	Keys    int
	Fetched time.Time
	// Fault is why the last fetch brought none; nil: it did.
	Fault error
}

// Places are all places that are remembered, by URL.
func (f *Fetcher) Places() []Place {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]Place, 0, len(f.places))
	for p, e := range f.places {
		list = append(list, Place{URL: p.url, Keys: len(e.keys), Fetched: e.fetched, Fault: e.fault})
	}
	slices.SortFunc(list, func(a, b Place) int { return strings.Compare(a.URL, b.URL) })
	return list
}

// placeOf is the place where a key is and its id there. A single key has a place of its own.
func placeOf(name provider.KeyName) (place, string) {
	from := name.From
	p := place{form: from.Form, url: name.URL, at: from.At.Name, name: from.Name}
	if from.Form == provider.RemoteJWKS {
		return p, name.ID
	}
	p.id = name.ID
	for _, field := range from.Post {
		p.posts += field.Name + "\x00"
	}
	if len(from.Post) > 0 {
		p.user, p.password = name.Login.User, name.Login.Password
	}
	return p, ""
}

// byStranger tells whether a request can name places at will.
func byStranger(from *provider.Remote) bool {
	return from.URLFrom.Kind != provider.SourceNone || from.Form == provider.RemoteJWK
}

// mayBegin makes room for a new place, unless strangers named too many of late. What brought keys
// is given up for nothing that did not.
func (f *Fetcher) mayBegin(now time.Time) bool {
	if n := int(now.Sub(f.filled) / newPlaceEvery); n > 0 {
		f.tokens = min(newPlacesMax, f.tokens+n)
		f.filled = f.filled.Add(time.Duration(n) * newPlaceEvery)
	}
	if f.tokens == 0 || f.fetches == fetchesMax {
		return false
	}
	if len(f.places) >= placesMax && !f.forget(now) {
		return false
	}
	f.tokens--
	return true
}

// forget drops the place that was not used for the longest time, of those without keys first.
func (f *Fetcher) forget(now time.Time) bool {
	var worst place
	var found *entry
	for p, e := range f.places {
		switch {
		case e.busy, len(e.keys) > 0 && now.Sub(e.used) < lifetimeMax:
			continue
		case found == nil, len(e.keys) == 0 && len(found.keys) > 0,
			(len(e.keys) == 0) == (len(found.keys) == 0) && e.used.Before(found.used):
			worst, found = p, e
		}
	}
	delete(f.places, worst)
	return found != nil
}

// begin starts the fetch of a place, unless one runs, or it must wait, or too many run.
func (f *Fetcher) begin(p place, e *entry, name provider.KeyName, now time.Time) {
	if e.busy || now.Before(e.next) || f.fetches == fetchesMax || f.context.Err() != nil {
		return
	}
	e.busy = true
	f.fetches++
	f.running.Add(1)
	go func() {
		defer f.running.Done()
		found, err := f.fetch(name)
		f.end(p, e, found, err)
	}()
}

// errRefused marks an answer that says, or means, that there is no such key. It is for places that
// strangers name; the one that an operator names is thought to be out of order for a while.
var errRefused = errors.New("refused")

func refuse(from *provider.Remote, err error) error {
	if byStranger(from) {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return err
}

func (f *Fetcher) end(p place, e *entry, found answer, err error) {
	now := f.options.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fetches--
	e.busy = false
	before, first := e.fault, e.keys == nil
	e.fault, e.refused = err, errors.Is(err, errRefused)
	switch {
	case err == nil:
		e.keys, e.fetched, e.wait = found.keys, now, 0
		e.fresh = now.Add(found.lifetime)
		e.next = now.Add(askAgain)
		if before != nil || first {
			f.options.Log.Info("keys of a sender are here", "url", p.url, "keys", len(e.keys))
		}
		return
	case e.refused:
		e.next = now.Add(refusedFor)
	default:
		e.wait = min(max(2*e.wait, retryMin), retryMax)
		e.next = now.Add(e.wait)
	}
	if before == nil || before.Error() != err.Error() {
		f.options.Log.Warn("keys of a sender cannot be had", "url", p.url, "error", err)
	}
}
