package daemon

import (
	"fmt"
	"slices"
	"time"

	"sluice/go/internal/admin"
	"sluice/go/internal/deliver"
	"sluice/go/internal/lane"
	"sluice/go/internal/observe"
)

// whyNotReady lists what keeps senders from being served; nothing means ready.
func (d *Daemon) whyNotReady() []string {
	var why []string
	d.mu.Lock()
	for _, problem := range d.problems {
		why = append(why, problem)
	}
	d.mu.Unlock()
	slices.Sort(why)
	switch {
	case d.stopping.Load():
		why = append(why, "stopping")
	case !d.ready.Load():
		why = append(why, "starting")
	}
	if super := d.seenSuper.Load(); super != nil && d.ready.Load() {
		if s := super.Status(); s.Problem != "" {
			why = append(why, s.Problem)
		}
	}
	space := d.store.Space()
	if d.ready.Load() && !space.Writable {
		why = append(why, "the journal cannot be written: senders get 503")
	}
	if space.Full {
		why = append(why, fmt.Sprintf("the journal is full (%d of %d bytes): senders get 503 until "+
			"events are delivered or the disk is grown", space.UsedBytes, space.TotalBytes))
	}
	return why
}

func (d *Daemon) listeners() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.listen)
}

// Listeners are the addresses that senders connect to.
func (d *Daemon) Listeners() []string { return d.listeners() }

// planeBorn begins to read the counters of a data plane.
func (d *Daemon) planeBorn(generation uint32, path string) {
	counters, err := lane.OpenCounters(path)
	if err != nil {
		d.log.Warn("no metrics of this data plane", "generation", generation, "error", err)
		return
	}
	d.mu.Lock()
	d.standing.born(generation, d.youngest())
	d.counters[generation] = counters
	d.mu.Unlock()
	d.metrics.Attach(generation, counters, d.slot)
	d.attachGaps(generation, path, counters)
	d.tune.Attach(generation, counters)
}

// planeDied takes its last counts over and lets them go.
func (d *Daemon) planeDied(generation uint32) {
	d.mu.Lock()
	counters := d.counters[generation]
	delete(d.counters, generation)
	d.mu.Unlock()
	if counters != nil {
		d.tune.Detach(generation)
		d.metrics.Detach(generation)
		d.gaps.Detach(generation, true)
		d.standing.died(generation, counters)
		counters.Close()
	}
}

// slot names the source of a slot in the counters: slots are source numbers less one.
func (d *Daemon) slot(slot int) (observe.Slot, bool) {
	p := d.plan.Load()
	if p == nil {
		return observe.Slot{}, false
	}
	for _, s := range p.catalogue.Sources {
		if int(s.ID)-1 == slot {
			found := observe.Slot{Name: s.Name, Priority: "default"}
			if configured, ok := p.config.Source(s.Name); ok {
				found.Priority = configured.Priority
			}
			return found, true
		}
	}
	return observe.Slot{}, false
}

// taken sums the slots and the held requests of all living data planes.
func (d *Daemon) taken() (inflight, held uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.counters {
		inflight += c.Inflight()
		held += c.Held()
	}
	return inflight, held
}

// adminFacts is what status shows beside the store.
func (d *Daemon) adminFacts() admin.Facts {
	why := d.whyNotReady()
	recovery := d.store.Recovery()
	f := admin.Facts{
		Ready: len(why) == 0, Uptime: time.Since(d.began), Listeners: d.listeners(),
		Problems:  d.withSilent(d.withSecrets(d.withUnenforced(d.withFaults(why)))),
		JournalID: recovery.JournalID, Damage: recovery.Damage,
	}
	f.Admission.Limit = d.tune.State().Limit
	f.Admission.Inflight, f.Admission.Held = d.taken()
	f.Admission.OverloadedClasses = classNames(d.overloaded())
	f.Admission.Overloaded = len(f.Admission.OverloadedClasses) > 0
	if super := d.seenSuper.Load(); super != nil {
		s := super.Status()
		f.Generation = s.Generation
		f.DataPlane = admin.DataPlane{
			Pid: uint32(s.Pid), Driver: s.Driver, Restarts: s.Restarts,
			DriverReason: s.DriverReason, Sandbox: s.Sandbox, SandboxReason: s.SandboxReason,
			Retiring: uint32(s.Retiring),
		}
	}
	p, judged := d.plan.Load(), d.seenIngest.Load()
	if p == nil || judged == nil {
		return f
	}
	f.ConfigVersion = p.catalogue.ConfigVersion
	secrets := d.secretStatuses()
	for i := range p.config.Sources {
		name := p.config.Sources[i].Name
		id := idOf(p.catalogue.Sources, name)
		tally, stands := judged.Tally(id), d.standsNow(id)
		f.Sources = append(f.Sources, admin.Source{
			Provider: p.config.Sources[i].Provider, Enforce: p.config.Sources[i].Enforce,
			Unverified: unverified(tally), LastEvent: lastEvent(tally),
			Name: name, Duplicates: tally.Duplicates.Load(),
			Unauthorized: tally.Unauthorized.Load(), Refused: d.metrics.Shed(name),
			RefusedInRow: stands.refusedInRow, Guarded: stands.guarded,
			Silent: d.silence.Silent(name), Reconciled: d.reconciled(name),
			Secrets: secrets[name],
		})
	}
	attempts := d.attempts()
	for i := range p.config.Destinations {
		name := p.config.Destinations[i].Name
		id := idOf(p.catalogue.Destinations, name)
		now := attempts[id]
		f.Destinations = append(f.Destinations, admin.Destination{
			Name: name, Breaker: d.protect.State(id).String(),
			Inflight: uint64(now.InFlight), Limit: uint64(now.Limit),
		})
	}
	return f
}

// observeFacts is what metrics show.
func (d *Daemon) observeFacts() observe.Facts {
	stats, space := d.store.Stats(), d.store.Space()
	f := observe.Facts{
		Admission: d.observeAdmission(), Gaps: d.gaps.Len(),
		Journal: observe.Journal{
			UsedBytes: uint64(space.UsedBytes), TotalBytes: uint64(space.TotalBytes),
			Events: stats.Events, OldestAge: age(space.Oldest),
			Writable: space.Writable, Full: space.Full, Headroom: uint64(space.Headroom),
			UndeliveredAge: age(stats.Undelivered), DeadDropped: stats.DeadDropped,
			KeysLeft: stats.KeysLeft, DedupMemory: uint64(stats.DedupMemory),
			DedupMemoryShort: stats.DedupMemoryShort,
			RetentionAge:     time.Duration(d.o.Config.Journal.Retention.Age),
			Durable:          stats.Durable, Applied: stats.Applied,
			Committer: stats.CPU.Committer, Applier: stats.CPU.Applier, Engine: stats.CPU.Engine,
		},
	}
	if super := d.seenSuper.Load(); super != nil {
		s := super.Status()
		f.Generation, f.Restarts = s.Generation, s.Restarts
		f.DataPlane = observe.DataPlane{
			Driver: s.Driver, Sandbox: s.Sandbox, Retiring: s.Retiring,
		}
	}
	names := d.store.Catalogue()
	if names == nil {
		return f
	}
	f.ConfigVersion = names.ConfigVersion
	f.Certificates = d.certificates()
	f.Secrets = d.observeSecrets()
	attempts := d.attempts()
	for _, s := range stats.Destinations {
		now := attempts[s.Destination]
		f.Destinations = append(f.Destinations, observe.Destination{
			Name: names.DestinationName(s.Destination), Backlog: s.Backlog,
			OldestAge: age(s.Oldest), Dead: s.Dead, Inflight: uint64(now.InFlight),
			Rate: s.Rate, Drain: drain(s),
			Limit:   uint64(now.Limit),
			Breaker: breakerNumbers[d.protect.State(s.Destination)],
		})
	}
	f.Breakers = d.observeBreakers()
	judged := d.seenIngest.Load()
	if judged == nil {
		return f
	}
	f.BeltWakes, f.DeliveredWaits = judged.BeltWakes(), uint64(judged.Waiting())
	for _, l := range judged.Lanes() {
		f.Lanes = append(f.Lanes, observe.Lane{
			Name: fmt.Sprintf("%x", l.ID[:4]), Used: l.Used, Capacity: l.Capacity,
		})
	}
	stored := make(map[uint32]uint64)
	for _, s := range stats.Sources {
		stored[s.Source] = s.Accepted
	}
	for _, n := range names.Sources {
		tally, stands := judged.Tally(n.ID), d.standsNow(n.ID)
		f.Sources = append(f.Sources, observe.Source{
			Name: n.Name, Stored: stored[n.ID], Duplicates: tally.Duplicates.Load(),
			Unauthorized: tally.Unauthorized.Load(), Handshakes: tally.Answered.Load(),
			RefusedInRow: stands.refusedInRow, Guarded: stands.guarded,
			Unverified: doubts(tally), Unavailable: tally.Unavailable.Load(),
			Silent: d.silence.Silent(n.Name), Heard: d.silence.Heard(n.Name),
		})
	}
	return f
}

// attempts is what each destination has in flight.
func (d *Daemon) attempts() map[uint32]deliver.Status {
	found := map[uint32]deliver.Status{}
	if service := d.seenDeliver.Load(); service != nil {
		for _, s := range service.Statuses() {
			found[s.ID] = s
		}
	}
	return found
}

func (d *Daemon) observeAdmission() observe.Admission {
	state := d.tune.State()
	a := observe.Admission{
		Limit: state.Limit, MaxHeld: state.MaxHeld, HoldBudget: state.HoldBudget,
		Overloaded: d.overloaded(), HoldBound: state.Numbers.HoldBound,
		ServiceTime: state.Numbers.ServiceTime, ShareRate: state.Numbers.ShareRate,
		Saturation: state.Numbers.Saturation, Changes: make(map[string]uint64),
	}
	for reason, n := range state.Decisions {
		a.Changes[string(reason)] = n
	}
	return a
}

func age(since time.Time) time.Duration {
	if since.IsZero() {
		return 0
	}
	return max(time.Since(since), 0)
}

// limiter shows the limit and what is taken of it.
type limiter struct{ d *Daemon }

func (l limiter) Limits() admin.Limits {
	s := l.d.tune.State()
	limits := admin.Limits{
		Algorithm: s.Algorithm, Limit: s.Limit, Min: s.Min, Max: s.Max, Base: s.Numbers.Base,
		PinnedUntil: s.PinnedUntil, MaxHeld: s.MaxHeld, HoldBudget: s.HoldBudget,
		ServiceTime: s.Numbers.ServiceTime, Throughput: s.Numbers.Throughput,
		HoldBound: s.Numbers.HoldBound, ShareRate: s.Numbers.ShareRate,
	}
	for _, c := range s.Changes {
		limits.Changes = append(limits.Changes,
			admin.LimitChange{At: c.At, From: c.From, To: c.To, Reason: string(c.Reason)})
	}
	limits.Inflight, limits.Held = l.d.taken()
	return limits
}

func (l limiter) Pin(limit uint64, span time.Duration) error { return l.d.tune.Pin(limit, span) }
func (l limiter) Release()                                   { l.d.tune.Release() }

// classNames names the classes that have a bit.
func classNames(bits uint64) []string {
	var names []string
	for class, name := range observe.Classes {
		if bits>>class&1 != 0 {
			names = append(names, name)
		}
	}
	return names
}
