package daemon

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"google.golang.org/protobuf/proto"

	"sluice/go/internal/config"
	"sluice/go/internal/dataplane"
	"sluice/go/internal/lane"
	"sluice/go/internal/listen"
	"sluice/go/internal/supervise"
	pb "sluice/proto/sluice/v1"
)

// settings are what the config in force says on a data plane's command line. What is a data plane's
// own default is not said, so that its words stay the same.
func (d *Daemon) settings() dataplane.Settings {
	c := d.plan.Load().config
	said := func(word, silent string) string {
		if word == silent {
			return ""
		}
		return word
	}
	return dataplane.Settings{
		RingSize: uint64(c.RingSize), MaxConnections: c.HTTP.MaxConnections,
		Driver: said(c.Driver, "auto"), Sandbox: said(c.Sandbox, "auto"), User: said(c.User, "nobody"),
	}
}

// specs are the addresses of a config, one for each listener.
func specs(c *config.Config) []listen.Spec {
	list := make([]listen.Spec, 0, len(c.Listeners))
	for _, l := range c.Listeners {
		list = append(list, listen.Spec{
			Network: l.Address.Network, Target: l.Address.Target, Backlog: l.Backlog,
			DeferAccept: l.DeferAccept, KeepAlive: l.KeepAlive, Mode: fs.FileMode(l.Mode),
		})
	}
	return list
}

// openListeners opens what the config in force wants and is not among the sockets that there are.
func (d *Daemon) openListeners(ctx context.Context, have [][]*os.File) (*supervise.Sockets, error) {
	c := d.plan.Load().config
	wanted := specs(c)
	set, err := listen.Plan{
		Specs: wanted, Workers: c.Workers, Have: have, Inherited: d.o.Inherited,
	}.Open(ctx)
	if err != nil {
		return nil, err
	}
	sockets := &supervise.Sockets{Set: set}
	for _, i := range set.Spec {
		sockets.Names = append(sockets.Names, wanted[i].String())
	}
	return sockets, nil
}

// spread gives each row of sockets what its listener has in the snapshot, where they are in the
// order of the config.
func spread(of *pb.Snapshot, c *config.Config, rows []string) *pb.Snapshot {
	if len(of.GetListeners()) == 0 {
		return of
	}
	byName := make(map[string]*pb.Listener, len(of.GetListeners()))
	for i, spec := range specs(c) {
		byName[spec.String()] = of.Listeners[i]
	}
	snapshot := proto.CloneOf(of)
	snapshot.Listeners = snapshot.Listeners[:0]
	for _, name := range rows {
		snapshot.Listeners = append(snapshot.Listeners, byName[name])
	}
	return snapshot
}

// noteListeners keeps the addresses as they are, port 0 resolved, for status and the example.
func (d *Daemon) noteListeners() {
	var list []string
	seen := map[string]bool{}
	for _, sockets := range d.super.Listeners() {
		at, err := listen.Address(sockets[0])
		if err != nil {
			d.log.Warn("an address is not shown", "error", err)
			continue
		}
		if name := at.String(); !seen[name] { // an address may have several rows
			seen[name], list = true, append(list, name)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listen = list
}

// forgetListeners takes the paths of Unix sockets away that a config does not have any more, when
// nobody accepts on them.
func (d *Daemon) forgetListeners(before, after *config.Config) {
	gone := slices.DeleteFunc(specs(before), func(s listen.Spec) bool {
		return slices.Contains(specs(after), s)
	})
	if len(gone) == 0 {
		return
	}
	d.beating.Go(func() {
		if d.super.AwaitElders(context.Background()) == nil {
			d.unlink(gone)
		}
	})
}

func (d *Daemon) unlink(gone []listen.Spec) {
	if err := listen.Unlink(gone); err != nil {
		d.log.Warn("the path of a listening socket is left behind", "error", err)
	}
}

// newBells makes doorbells.
func newBells(count int) ([]*os.File, error) {
	var bells []*os.File
	for range count {
		bell, err := lane.NewBell()
		if err != nil {
			dataplane.Fds{RequestBells: bells}.Close()
			return nil, fmt.Errorf("doorbell: %w", err)
		}
		bells = append(bells, bell.File())
	}
	return bells, nil
}
