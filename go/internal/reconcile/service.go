package reconcile

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"sluice/go/internal/config"
	"sluice/go/internal/gaps"
	"sluice/go/internal/store/vfs"
)

var (
	// ErrRunning says that the source is being reconciled already.
	ErrRunning = errors.New("a reconciliation of this source is under way")
	// ErrUnknown says that no such source says how its provider is asked: the operator's to mend.
	ErrUnknown = errors.New("no source of that name has a reconcile: block")
	// ErrAsk is wrapped by errors of what was asked for: the caller's to mend.
	ErrAsk = errors.New("nothing can be asked for")
)

// Target is a source that can be reconciled.
type Target struct {
	Name   string
	Config *config.Reconcile
	Source Source
	// Kept is how long events are kept: what is older may have been here.
	Kept time.Duration
}

// Options of New; those that say nothing of nil are required.
type Options struct {
	Store Store
	Gaps  Gaps
	// Targets are those of the config in force.
	Targets func() []Target
	// Room says what has to be waited for before something may be taken in; empty: nothing.
	Room func() string
	// Dir keeps how far each source is, one file each.
	Dir string
	FS  vfs.FS // nil: the operating system's
	// Transport carries the calls; nil: the standard library's.
	Transport http.RoundTripper
	Log       *slog.Logger // nil: slog.Default

	seams
}

// seams are bounds that tests have smaller ones of.
type seams struct {
	records int           // recordsMax
	pause   time.Duration // githubPause
	arrival time.Duration // arrivalMax
}

// Service reconciles sources. Its methods may be called from any goroutine.
type Service struct {
	o     Options
	began time.Time

	mu    sync.Mutex
	files map[string]*file
	live  map[string]*Progress // of runs under way
	runs  sync.WaitGroup
}

// New makes a service that does nothing until it is asked, or Run.
func New(o Options) *Service {
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Room == nil {
		o.Room = func() string { return "" }
	}
	if o.seams == (seams{}) {
		o.seams = seams{recordsMax, githubPause, arrivalMax}
	}
	return &Service{
		o: o, began: time.Now(), files: map[string]*file{}, live: map[string]*Progress{},
	}
}

// Ask is what a run is to do.
type Ask struct {
	// Since and Until are what is asked for; zero: from the oldest open gap on, or what the config
	// looks back, until now.
	Since, Until time.Time
	// Dry asks and compares only.
	Dry bool

	alone bool // nobody asked: the schedule, or a gap
}

// Reconcile makes one run, and tells of it now and then; the last one has Done. An error is one of
// asking. What went wrong afterwards is in the result.
func (s *Service) Reconcile(ctx context.Context, source string, a Ask, say func(Progress)) (
	Progress, error,
) {
	t, known := s.target(source)
	if !known {
		return Progress{}, fmt.Errorf("%w: %q", ErrUnknown, source)
	}
	f, err := s.begin(t.Name)
	if err != nil {
		return Progress{}, err
	}
	defer s.end(t.Name)
	r, err := s.prepare(t, f, a, say)
	if err != nil {
		return Progress{}, err
	}
	return s.run(ctx, r, f, a), nil
}

func (s *Service) target(name string) (Target, bool) {
	for _, t := range s.o.Targets() {
		if t.Name == name {
			return t, true
		}
	}
	return Target{}, false
}

// begin takes a source for one run.
func (s *Service) begin(name string) (*file, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live[name] != nil {
		return nil, ErrRunning
	}
	f := s.fileOf(name)
	s.live[name] = &Progress{Source: name}
	return f, nil
}

// fileOf gives a source's state; s.mu is held.
func (s *Service) fileOf(name string) *file {
	f := s.files[name]
	if f != nil {
		return f
	}
	f, err := openFile(s.o.FS, filepath.ToSlash(s.o.Dir), name)
	if err != nil {
		s.o.Log.Warn("reconciliation begins anew, which costs a longer run", "source", name,
			"error", err)
	}
	if f.state.Began == 0 {
		f.state.Began = time.Now().UnixNano()
		s.save(name, f)
	}
	s.files[name] = f
	return f
}

func (s *Service) save(name string, f *file) {
	if err := f.save(); err != nil {
		s.o.Log.Warn("how far reconciliation came is not saved; a restart would begin it anew",
			"source", name, "error", err)
	}
}

func (s *Service) end(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, name)
}

// Status gives the run under way, or the last one that ended; false: there was none.
func (s *Service) Status(source string) (Progress, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.live[source]; p != nil {
		return *p, true
	}
	if f := s.files[source]; f != nil && f.state.Last != nil {
		return *f.state.Last, true
	}
	return Progress{}, false
}

// prepare makes a run of what is asked for.
func (s *Service) prepare(t Target, f *file, a Ask, say func(Progress)) (*run, error) {
	shown, waiting := time.Time{}, ""
	r := &run{
		service: s, target: t, shelf: newShelf(s.o.Store, t.Source), dry: a.Dry,
		pace: pacer{interval: time.Duration(float64(time.Second) / t.Config.Rate.PerSecond())},
	}
	r.say = func(p Progress) {
		s.mu.Lock()
		*s.live[t.Name] = p
		s.mu.Unlock()
		now := time.Now()
		if say != nil && (now.Sub(shown) >= sayInterval || p.Waiting != waiting) {
			shown, waiting = now, p.Waiting
			say(p)
		}
	}
	var err error
	r.feed, err = newFeed(t.Config, callerOptions{
		transport: s.o.Transport, waiting: r.wait, between: s.o.pause,
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAsk, err)
	}
	if r.whole, err = s.stretch(t, f, a, r.feed.traits(), time.Now()); err != nil {
		return nil, err
	}
	r.p = Progress{Source: t.Name, Since: r.whole.since, Until: r.whole.until}
	return r, nil
}

// run makes a run and keeps how far it comes.
func (s *Service) run(ctx context.Context, r *run, f *file, a Ask) Progress {
	name := r.target.Name
	began := r.whole.since
	r.advance = func(at time.Time) {
		if a.Dry || !at.After(began) {
			return
		}
		f.state.Run.Done = at.UnixNano()
		s.save(name, f)
	}
	r.from = began
	switch {
	case a.Dry:
	case a.alone && f.state.Run != nil:
		r.from = timeOf(f.state.Run.Since)
	default:
		since, until := r.whole.since.UnixNano(), r.whole.until.UnixNano()
		f.state.Run = &runState{Since: since, Until: until, Done: since}
		s.save(name, f)
	}
	alone := s.since(r.target, f, Ask{alone: true}, r.feed.traits(), time.Now())
	r.covers = !r.from.After(alone)
	s.o.Log.Info("reconciliation begins", "source", name, "since", r.whole.since, "until",
		r.whole.until, "dry_run", a.Dry)
	r.tell()
	err := r.do(ctx)
	if closeErr := r.close(err == nil); err == nil {
		err = closeErr
	}
	r.p.Waiting, r.p.Done, r.p.Ended = "", true, time.Now()
	if err != nil {
		r.p.Error = err.Error()[:min(len(err.Error()), errorTextMax)]
		s.o.Log.Warn("reconciliation ended early", "source", name, "error", err)
	}
	s.o.Log.Info("reconciliation ended", "source", name, "seen", r.p.Seen, "known", r.p.Known,
		"taken", r.p.Taken, "requested", r.p.Requested, "lost", r.p.Lost,
		"gaps_closed", r.p.GapsClosed)
	if !a.Dry && (ctx.Err() == nil || !a.alone) {
		s.conclude(r, f, err == nil)
	}
	return r.p
}

// conclude notes how a run ended. One by itself that its context ended goes on in the next life.
func (s *Service) conclude(r *run, f *file, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, done := r.p, f.state.Run.Done
	f.state.Last, f.state.Ended, f.state.Failed = &last, r.p.Ended.UnixNano(), !whole
	if r.covers { // else what lies before it was not dealt with
		f.state.Done = max(f.state.Done, done)
	}
	if whole {
		f.state.Tried = max(f.state.Tried, f.state.Run.Until)
	}
	f.state.Run = nil
	s.save(r.target.Name, f)
}

// stretch is what a run asks for.
func (s *Service) stretch(t Target, f *file, a Ask, of traits, now time.Time) (span, error) {
	if a.alone && f.state.Run != nil { // an earlier life's, which goes on
		return whole(timeOf(f.state.Run.Done), timeOf(f.state.Run.Until)), nil
	}
	out := span{a.Since, a.Until}
	if out.until.IsZero() || out.until.After(now) {
		out.until = now
		if a.alone {
			out.until = now.Add(-freshTime)
		}
	}
	if out.since.IsZero() {
		out.since = s.since(t, f, a, of, now)
	}
	out = whole(out.since, out.until)
	switch {
	case !out.since.Before(out.until):
		return out, fmt.Errorf("%w: since is not before until", ErrAsk)
	case out.since.Before(now.Add(-t.Kept - time.Minute)):
		return out, fmt.Errorf("%w: events are kept for %v, so older ones would be taken for missing: "+
			"ask for less, or raise journal.retention.age", ErrAsk, t.Kept)
	}
	return out, nil
}

// whole widens a stretch of time to whole seconds, which is what providers are asked for.
func whole(since, until time.Time) span {
	return span{since.Truncate(time.Second), until.Add(time.Second - 1).Truncate(time.Second)}
}

// since is where a run begins that nobody gave a beginning.
func (s *Service) since(t Target, f *file, a Ask, of traits, now time.Time) time.Time {
	earliest := now.Add(-t.Config.Lookback)
	from := earliest
	if a.alone {
		if from = timeOf(f.state.Done).Add(-overlap); f.state.Done == 0 && !of.failedOnly {
			from = timeOf(f.state.Began)
		}
	} else if gap := s.oldestGap(t.Name, 0); !gap.IsZero() {
		from = gap.Add(-of.reach - time.Minute)
	}
	if gap := s.oldestGap(t.Name, f.state.Tried); a.alone && !gap.IsZero() {
		if gap = gap.Add(-of.reach - time.Minute); gap.Before(from) {
			from = gap
		}
	}
	if from.Before(earliest) {
		return earliest
	}
	return from
}

// oldestGap is when the oldest open gap began of those that ended after tried.
func (s *Service) oldestGap(source string, tried int64) (from time.Time) {
	for _, g := range s.o.Gaps.List(gaps.Filter{Source: source}) {
		if g.To.UnixNano() > tried && (from.IsZero() || g.From.Before(from)) {
			from = g.From
		}
	}
	return from
}
