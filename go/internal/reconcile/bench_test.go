package reconcile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/go/internal/config"
	"sluice/go/internal/event"
	"sluice/go/internal/gaps"
	"sluice/go/internal/provider"
	"sluice/go/internal/store"
	"sluice/go/internal/store/vfs"
	"sluice/shm-abi/shmabi"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const (
	theToken = "token-that-nobody-may-see"
	// theDestination is the number of the one destination.
	theDestination = 1
)

// bench is a store with one source, whose provider is a server of the test's.
type bench struct {
	t      testing.TB
	dir    string
	store  *store.Store
	ledger *ledger
	config *config.Reconcile
	source Source
	fs     *vfs.Faulty
	log    bytes.Buffer
	mu     sync.Mutex
	waits  string // what Room says
	seams  seams
	every  func(Progress)
	*Service
}

// ledger is what of the ledger of refusals a run sees.
type ledger struct {
	mu   sync.Mutex
	gaps []gaps.Gap
}

func (l *ledger) List(f gaps.Filter) (list []gaps.Gap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.gaps {
		if g.Closed.IsZero() && (f.Until.IsZero() || g.From.Before(f.Until)) {
			list = append(list, g)
		}
	}
	return list
}

func (l *ledger) Close(found []gaps.Gap) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.gaps {
		if slices.ContainsFunc(found, func(g gaps.Gap) bool {
			return g.Reason == l.gaps[i].Reason && g.From.Equal(l.gaps[i].From)
		}) {
			l.gaps[i].Closed = time.Now()
			n++
		}
	}
	return n
}

func (l *ledger) add(g gaps.Gap) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gaps = append(l.gaps, g)
}

// schemes have their ids where the catalogue's have them.
var schemes = map[string]*provider.Scheme{
	"github": {
		ID:   []provider.Source{source("header:X-GitHub-Delivery")},
		Type: []provider.Source{source("header:X-GitHub-Event")},
	},
	"stripe": {
		ID: []provider.Source{source("json:/id")}, Type: []provider.Source{source("json:/type")},
	},
	"shopify": {
		ID:   []provider.Source{source("header:X-Shopify-Event-Id")},
		Type: []provider.Source{source("header:X-Shopify-Topic")},
	},
	"http": {ID: []provider.Source{source("header:X-Event-Id")}},
}

func source(text string) provider.Source {
	s, err := provider.ParseSource(text)
	if err != nil {
		panic(err)
	}
	return s
}

// newBench reads the block of a source in a config and serves it.
func newBench(t testing.TB, kind, block string) *bench {
	b := &bench{t: t, dir: t.TempDir(), ledger: &ledger{}, fs: vfs.NewFaulty(vfs.OS(), nil, nil)}
	text := fmt.Sprintf("sources:\n  it:\n    provider: none\n    reconcile:\n      kind: %s\n%s"+
		"destinations: {to: {stdout: {}}}\n", kind, block)
	c, err := config.Parse("sluice.yaml", []byte(text), config.Options{Dev: true})
	must(t, err)
	b.config = c.Sources[0].Reconcile
	b.config.Rate = &config.Rate{Events: 10_000, Per: time.Second}
	find, err := provider.NewIdentifier(schemes[kind], provider.IDFrom{})
	must(t, err)
	identify := func(r *provider.Request, use func(id, kind []byte)) { use(find.Clone().Identify(r)) }
	b.source = Source{
		ID: 1, Path: "/hooks/it", MaxBody: 1 << 20, Dedup: time.Hour,
		Destinations: []uint32{theDestination}, Identify: identify,
		DedupKey: func(id []byte) (key [16]byte) {
			sum := sha256.Sum256(id)
			sum[0] |= 1
			copy(key[:], sum[:])
			return key
		},
	}
	b.seams = seams{records: recordsMax, pause: time.Millisecond, arrival: 2 * time.Second}
	b.open()
	t.Cleanup(func() { must(t, b.store.Close()) })
	return b
}

// open begins a life on what is on the disk.
func (b *bench) open() {
	var err error
	b.store, err = store.Open(context.Background(), store.Options{
		Dir: filepath.Join(b.dir, "data"), Log: slog.New(slog.DiscardHandler),
		SegmentBytes: 4 << 20,
		Describe: func(_ string, f shmabi.Frame, use func(id, kind []byte)) {
			e, err := f.Event()
			must(b.t, err)
			r := &provider.Request{Body: e.Body()}
			for i := range e.HeaderCount() {
				name, value := e.Header(i)
				r.Headers = append(r.Headers, provider.Field{Name: name, Value: value})
			}
			b.source.Identify(r, use)
		},
	})
	must(b.t, err)
	must(b.t, b.store.Settle(context.Background()))
	must(b.t, b.store.PutCatalogue(context.Background(), event.Catalogue{
		ConfigVersion: 1, Sources: []event.Named{{ID: 1, Name: "it"}},
		Destinations: []event.Named{{ID: theDestination, Name: "to"}},
	}))
	b.serve()
}

// serve begins another life of the service alone.
func (b *bench) serve() {
	b.Service = New(Options{
		Store: b.store, Gaps: b.ledger, Dir: filepath.Join(b.dir, "reconcile"), FS: b.fs,
		Targets: func() []Target {
			return []Target{{Name: "it", Config: b.config, Source: b.source, Kept: 7 * 24 * time.Hour}}
		},
		Room: func() string {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.waits
		},
		Log: slog.New(slog.NewTextHandler(&b.log, nil)), seams: b.seams,
	})
}

// reconcile makes one run that must end well.
func (b *bench) reconcile(a Ask) Progress {
	b.t.Helper()
	p := b.try(a)
	if p.Error != "" {
		b.t.Fatalf("it ended early: %s\n%+v", p.Error, p)
	}
	return p
}

func (b *bench) try(a Ask) Progress {
	b.t.Helper()
	p, err := b.Reconcile(context.Background(), "it", a, b.every)
	must(b.t, err)
	if strings.Contains(b.log.String()+p.Error, theToken) {
		b.t.Fatal("the token is in the log or in an error")
	}
	return p
}

// failed makes one run that must end early for a reason.
func (b *bench) failed(a Ask, why string) Progress {
	b.t.Helper()
	p := b.try(a)
	if !strings.Contains(p.Error, why) {
		b.t.Fatalf("it ended with %q, want %q", p.Error, why)
	}
	return p
}

// stored lists what is stored, in the order in which it came: each with the sender's id.
func (b *bench) stored() (ids []string) {
	b.t.Helper()
	page, err := b.store.Events(store.Filter{Oldest: true})
	must(b.t, err)
	for _, e := range page.Items {
		ids = append(ids, e.ProviderID)
	}
	return ids
}

// arrive stores a record as one that came by webhook.
func (b *bench) arrive(r record) {
	b.t.Helper()
	_, err := newShelf(b.store, b.source).take(context.Background(), []*record{&r})
	must(b.t, err)
}

func (b *bench) wantStored(want ...string) {
	b.t.Helper()
	if got := b.stored(); !slices.Equal(got, want) {
		b.t.Errorf("stored %q, want %q", got, want)
	}
}

// want compares the sums of a run.
func want(t testing.TB, p Progress, seen, known, taken, requested, lost, closed uint64) {
	t.Helper()
	got := []uint64{p.Seen, p.Known, p.Taken, p.Requested, p.Lost, p.GapsClosed}
	if w := []uint64{seen, known, taken, requested, lost, closed}; !slices.Equal(got, w) {
		t.Errorf("seen, known, taken, requested, lost, gaps closed: %v, want %v", got, w)
	}
}

// served starts a server that ends with the test.
func served(t testing.TB, s *httptest.Server) string {
	t.Cleanup(s.Close)
	return s.URL
}

// ago is a time of whole seconds, as providers have them.
func ago(d time.Duration) time.Time { return time.Now().Add(-d).Truncate(time.Second).UTC() }
