package daemon

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"sluice/go/internal/admin"
	"sluice/go/internal/event"
	"sluice/go/internal/ingest"
	"sluice/go/internal/provider"
	"sluice/go/internal/reconcile"
	"sluice/go/internal/store/vfs"
)

// reconcileDir and rhythmFile lie in the data directory.
const (
	reconcileDir = "reconcile"
	rhythmFile   = "rhythm.json"
	// headroomShare of the journal is left alone by what is reconciled.
	headroomShare = 20
)

// openReconcile makes what looks after what did not come: nothing runs before startReconcile.
func (d *Daemon) openReconcile() {
	dir := d.o.Config.DataDir
	d.reconcile = reconcile.New(reconcile.Options{
		Store: d.store, Gaps: d.gaps, Targets: d.reconcileTargets, Room: d.room,
		Dir: filepath.Join(dir, reconcileDir), Log: d.log,
	})
	d.silence = reconcile.NewSilence(reconcile.SilenceOptions{
		File: vfs.NewWhole(vfs.OS(), filepath.Join(dir, rhythmFile)), Senders: d.senders, Log: d.log,
	})
}

// startReconcile begins to reconcile and to listen, until ctx ends.
func (d *Daemon) startReconcile(ctx context.Context) {
	d.beating.Go(func() { d.reconcile.Run(ctx) })
	d.beating.Go(func() { d.silence.Run(ctx) })
}

// reconcileTargets are the sources of the config in force that say how their provider is asked.
func (d *Daemon) reconcileTargets() (list []reconcile.Target) {
	p := d.plan.Load()
	if p == nil {
		return nil
	}
	for i := range p.config.Sources {
		s := &p.config.Sources[i]
		judged := p.table.Sources[idOf(p.catalogue.Sources, s.Name)]
		if s.Reconcile == nil || judged == nil {
			continue
		}
		find := p.identify[s.Name].Clone()
		list = append(list, reconcile.Target{
			Name: s.Name, Config: s.Reconcile, Kept: time.Duration(p.config.Journal.Retention.Age),
			Source: reconcile.Source{
				ID: judged.ID, Path: s.Path, MaxBody: int64(s.MaxBody), Dedup: s.Dedup,
				Destinations: routedTo(&p.catalogue, judged.Route), OrderKey: judged.OrderKey,
				DedupKey: ingest.DedupKey, Identify: func(r *provider.Request,
					use func(id, kind []byte)) {
					use(find.Identify(r))
				},
			},
		})
	}
	return list
}

// routedTo are the destinations of a route, that of what takes an event apart among them.
func routedTo(names *event.Catalogue, version uint32) []uint32 {
	for i := range names.Routes {
		if names.Routes[i].Version == version {
			return names.Routes[i].Destinations
		}
	}
	return nil
}

// room says what has to be waited for before something that is reconciled may come in: it comes
// behind everybody who waits, and takes no slot and no space that a sender could need.
func (d *Daemon) room() string {
	inflight, held := d.taken()
	space := d.store.Space()
	switch {
	case d.stopping.Load():
		return "the daemon, which stops"
	case d.overloaded() != 0 || held > 0 || inflight >= d.tune.State().Limit:
		return "our own admission: senders wait"
	case !space.Writable:
		return "the journal, which cannot be written"
	case space.Full || space.Headroom < space.TotalBytes/headroomShare:
		return "room in the journal"
	}
	return ""
}

// senders are the sources to listen to, with what came of them.
func (d *Daemon) senders() (list []reconcile.Sender) {
	p, judged := d.plan.Load(), d.seenIngest.Load()
	if p == nil || judged == nil {
		return nil
	}
	for i := range p.config.Sources {
		s := &p.config.Sources[i]
		tally := judged.Tally(idOf(p.catalogue.Sources, s.Name))
		list = append(list, reconcile.Sender{
			Name: s.Name, Silence: s.Silence,
			// One that is turned away is no more silent than one that is served.
			Heard: tally.Verified.Load() + tally.Duplicates.Load() + d.metrics.Shed(s.Name),
		})
	}
	return list
}

// withSilent adds the sources that are silent to what an operator should look at. They are no
// reason not to be ready.
func (d *Daemon) withSilent(problems []string) []string {
	p := d.plan.Load()
	if p == nil {
		return problems
	}
	for i := range p.config.Sources {
		if text := d.silence.Problem(p.config.Sources[i].Name, time.Now()); text != "" {
			problems = append(problems, text)
		}
	}
	return problems
}

// reconciled is the run of a source that is under way, or its last one; nil: there was none.
func (d *Daemon) reconciled(source string) *admin.Reconciled {
	p, was := d.reconcile.Status(source)
	if !was {
		return nil
	}
	shown := shownProgress(p)
	return &shown
}

// reconciler reconciles for an operator.
type reconciler struct{ d *Daemon }

func (r reconciler) Reconcile(ctx context.Context, a admin.ReconcileAsk,
	say func(admin.Reconciled)) (admin.Reconciled, error) {
	if !r.d.ready.Load() {
		return admin.Reconciled{}, fmt.Errorf("%w: %w", admin.ErrNotNow, errNotReady)
	}
	last, err := r.d.reconcile.Reconcile(ctx, a.Source, reconcile.Ask{
		Since: a.Since, Until: a.Until, Dry: a.Dry,
	}, func(p reconcile.Progress) { say(shownProgress(p)) })
	switch {
	case errors.Is(err, reconcile.ErrRunning):
		err = fmt.Errorf("%w: %w", admin.ErrNotNow, err)
	case errors.Is(err, reconcile.ErrUnknown), errors.Is(err, reconcile.ErrAsk):
		err = fmt.Errorf("%w: %w", admin.ErrAsked, err)
	}
	return shownProgress(last), err
}

func shownProgress(p reconcile.Progress) admin.Reconciled {
	return admin.Reconciled{
		Source: p.Source, Since: p.Since, Until: p.Until, Pages: p.Pages, Seen: p.Seen, Known: p.Known,
		Taken: p.Taken, Requested: p.Requested, Lost: p.Lost, GapsClosed: p.GapsClosed,
		Waiting: p.Waiting, Done: p.Done, Error: p.Error, Ended: p.Ended,
	}
}
