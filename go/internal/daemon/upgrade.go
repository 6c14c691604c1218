package daemon

import (
	"context"
	"errors"
	"fmt"
)

// errUpgrading says that one upgrade waits for no other.
var errUpgrading = errors.New("another upgrade is under way: try again when it has ended")

// errNotReady says that there is nothing to change yet, or any more.
var errNotReady = errors.New("not ready yet, or stopping: try again in a moment")

// Upgrade replaces the data plane and gives the number of the one that serves from then on; with
// control it replaces this program, and returns when that is about to happen. say is called as each
// step begins. Where a step fails, all is as before. It waits for a reload, and a reload for it.
func (d *Daemon) Upgrade(ctx context.Context, control bool, say func(step string)) (uint32, error) {
	if !d.upgrading.TryLock() {
		return 0, errUpgrading
	}
	defer d.upgrading.Unlock()
	if control {
		return d.beginHandover(ctx, say)
	}
	generation, err := d.replacePlane(ctx, say)
	if err != nil {
		return 0, err
	}
	d.log.Info("data plane upgraded", "generation", generation)
	if err := d.super.AwaitElders(ctx); err != nil {
		return generation, fmt.Errorf("data plane %d serves; the one before did not end yet: %w",
			generation, err)
	}
	return generation, nil
}

// replacePlane puts another data plane in the place of the one that accepts.
func (d *Daemon) replacePlane(ctx context.Context, say func(step string)) (uint32, error) {
	d.reload.Lock()
	defer d.reload.Unlock()
	if !d.ready.Load() {
		return 0, errNotReady
	}
	generation, err := d.super.Upgrade(ctx, say)
	if err == nil {
		d.noteListeners()
	}
	return generation, err
}

// beginHandover looks at the program that is to take over, and lets this one go if that can.
func (d *Daemon) beginHandover(ctx context.Context, say func(step string)) (uint32, error) {
	d.reload.Lock() // no config comes into force from here on
	defer d.reload.Unlock()
	if !d.ready.Load() {
		return 0, errNotReady
	}
	say("look at " + d.program)
	next, err := openSuccessor(d.program)
	if err != nil {
		return 0, err
	}
	if err := d.examine(ctx, next, say); err != nil {
		next.close()
		return 0, err
	}
	say(fmt.Sprintf("hand over to sluice %s", next.version))
	d.log.Info("another program takes over", "program", next.path, "version", next.version)
	d.ready.Store(false) // from here on, whoever is ready is another one
	generation := d.super.Status().Generation
	d.leaving <- next
	return generation, nil
}

// examine makes sure that a program can go on where this one ends: it has our layout, and takes the
// config as it is on the disk now, by which no more changes than a reload could change.
func (d *Daemon) examine(ctx context.Context, next *successor, say func(step string)) error {
	if err := next.introduce(ctx); err != nil {
		return err
	}
	file := d.o.Config.File
	if file == "" {
		return nil // it is built in
	}
	say("check " + file)
	if err := next.check(ctx, file, d.o.Config.Dev); err != nil {
		return err
	}
	begins, err := d.o.Load()
	if err != nil {
		return fmt.Errorf("the next program would begin with a config that this one does not take: "+
			"upgrade first, then change it: %w", err)
	}
	if needs := d.o.Config.NeedsRestart(begins); len(needs) > 0 {
		return fmt.Errorf("%s: these keys change only with a restart, and differ from the config in "+
			"force: %v", file, needs)
	}
	return nil
}

// leave lets this program go without the data plane, which serves on: frames wait in its lanes
// until the next program takes them up. Delivery ends first, since its attempts take longest. Who
// is told to stop meanwhile stops, and no program follows.
func (d *Daemon) leave(ctx context.Context, next *successor) (*successor, error) {
	d.stopping.Store(true)
	d.closeFaults()
	err := d.stopDelivery()
	if ctx.Err() != nil || d.told() {
		next.close()
		return nil, errors.Join(err, d.stop())
	}
	d.super.Stop()
	d.tune.Leave()
	d.ingest.Stop()
	d.endBeating()
	return next, err
}

// told tells whether somebody asked for an orderly stop.
func (d *Daemon) told() bool {
	select {
	case <-d.drain:
		return true
	default:
		return false
	}
}
