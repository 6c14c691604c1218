package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"sluice/go/internal/admin"
	"sluice/go/internal/config"
	"sluice/go/internal/dataplane"
	"sluice/go/internal/ingest"
	"sluice/go/internal/supervise"
)

// Reload reads the config again and puts it in force, whole or not at all.
func (d *Daemon) Reload(ctx context.Context) (uint32, error) {
	d.reload.Lock()
	defer d.reload.Unlock()
	if !d.ready.Load() {
		return 0, errNotReady
	}
	c, err := d.o.Load()
	if err != nil {
		return 0, refused(err)
	}
	if needs := d.o.Config.NeedsRestart(c); len(needs) > 0 {
		return 0, refused(fmt.Errorf("these keys change only with a restart: %v", needs))
	}
	p, err := d.prepare(ctx, c)
	if err != nil {
		return 0, refused(err)
	}
	list, err := d.targets(p)
	if err != nil {
		return 0, refused(err)
	}
	protection, err := d.protection(p)
	if err != nil {
		closeTargets(list)
		return 0, refused(err)
	}
	before := d.plan.Load().config
	d.guard(p)
	if err := d.putInForce(ctx, c, p); err != nil {
		closeTargets(list)
		closeSignals(protection)
		return 0, err
	}
	if err := d.protect.Apply(protection); err != nil {
		closeTargets(list)
		closeSignals(protection)
		return 0, err
	}
	if err := d.deliver.Apply(d.gated(list)); err != nil {
		closeTargets(list)
		return 0, err
	}
	d.forget(before, c)
	d.tellUnenforced(c)
	d.log.Info("config reloaded", "version", p.catalogue.ConfigVersion)
	return p.catalogue.ConfigVersion, nil
}

// forget ends the metrics of what only the former config has.
func (d *Daemon) forget(before, after *config.Config) {
	for i := range before.Destinations {
		if _, stays := after.Destination(before.Destinations[i].Name); !stays {
			d.metrics.Forget(before.Destinations[i].Name)
		}
	}
	for _, g := range before.Groups {
		if !slices.ContainsFunc(after.Groups, func(h config.Group) bool { return h.Name == g.Name }) {
			d.metrics.Forget(g.Name)
		}
	}
}

// putInForce records the plan, then has the data plane route by it and intake judge by it.
func (d *Daemon) putInForce(ctx context.Context, c *config.Config, p *plan) error {
	before, needs := d.plan.Load(), d.o.Config.NeedsDataplane(c)
	if err := d.store.PutCatalogue(ctx, p.catalogue); err != nil {
		return fmt.Errorf("record the config: %w", err)
	}
	// A frame of a source that only the new one knows must find it as soon as the data plane routes
	// by it; all others are judged as before, until it is sure that there is no way back.
	d.ids.use(before, p)
	d.keys.Use(before.secrets, p.secrets)
	d.ingest.SetTable(both(before.table, p.table))
	d.plan.Store(p)
	var err error
	if len(needs) > 0 {
		err = d.replaceFor(ctx, needs)
	} else {
		err = d.super.Apply(ctx)
	}
	switch {
	case errors.Is(err, supervise.ErrNone):
		d.log.Warn("the config is in force for the next data plane; none accepts now")
	case errors.Is(err, dataplane.ErrRefused):
		d.plan.Store(before)
		d.ingest.SetTable(before.table)
		d.ids.use(before)
		d.keys.Use(before.secrets)
		return refused(err)
	case err != nil: // whether it took it is not known, so both go on being judged
		d.plan.Store(before)
		return err
	}
	d.ingest.SetTable(p.table)
	d.ids.use(p)
	d.keys.Use(p.secrets)
	d.o.Config = c
	d.noteListeners()
	d.forgetListeners(before.config, c)
	d.tune.UseSlots(p.slots())
	if err := d.tune.Configure(c.Admission); err != nil {
		return fmt.Errorf("the limit goes by the old config: %w", err)
	}
	return nil
}

// replaceFor has a data plane of the config in force take the place of the one that accepts. Where
// it does not come up, that is the config's fault.
func (d *Daemon) replaceFor(ctx context.Context, needs []string) error {
	d.log.Info("the config takes another data plane", "keys", needs)
	_, err := d.super.Upgrade(ctx, func(step string) { d.log.Info("upgrade", "step", step) })
	if err == nil || errors.Is(err, supervise.ErrGivenUp) || ctx.Err() != nil ||
		errors.Is(err, dataplane.ErrRefused) {
		return err
	}
	return refused(err)
}

// both is the table of what either config knows; the first one's word counts.
func both(before, after *ingest.Table) *ingest.Table {
	sources := maps.Clone(after.Sources)
	maps.Copy(sources, before.Sources)
	return &ingest.Table{Version: after.Version, Sources: sources}
}

// refused marks a fault of the operator's: the config was refused and the old one stays.
func refused(err error) error { return fmt.Errorf("%w: %w", admin.ErrRefused, err) }
