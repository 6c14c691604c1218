package daemon

import (
	"context"
	"net/netip"
	"path/filepath"
	"time"

	"sluice/go/internal/config"
	"sluice/go/internal/observe"
	"sluice/go/internal/tlsfiles"
	pb "sluice/proto/sluice/v1"
)

// ticketFile is in the data directory.
const ticketFile = "ticket-keys"

// openTickets takes the keys of session tickets up.
func (d *Daemon) openTickets() {
	d.tickets = tlsfiles.OpenTickets(filepath.Join(d.o.Config.DataDir, ticketFile), d.log, time.Now)
}

// loadFiles reads the certificates that a config's listeners show.
func (d *Daemon) loadFiles(c *config.Config) (*tlsfiles.Files, error) {
	var wanted []tlsfiles.Wanted
	for _, l := range c.Listeners {
		var w tlsfiles.Wanted
		if l.TLS != nil {
			w.ClientCA = l.TLS.ClientCA
			for _, pair := range l.TLS.Certificates {
				w.Pairs = append(w.Pairs, tlsfiles.Pair(pair))
			}
		}
		wanted = append(wanted, w)
	}
	return tlsfiles.Load(wanted, d.log, time.Now)
}

// prepare makes a config ready, its certificates included.
func (d *Daemon) prepare(ctx context.Context, c *config.Config) (*plan, error) {
	files, err := d.loadFiles(c)
	if err != nil {
		return nil, err
	}
	// Numbers follow what the journal knows, not the config in force: one that was refused after it
	// was recorded has used some up.
	p, err := newPlan(c, d.store.Catalogue())
	if err != nil {
		return nil, err
	}
	d.equip(p, files)
	return p, d.prove(ctx, p, true)
}

// equip gives a plan what its listeners agree on with senders before HTTP begins.
func (d *Daemon) equip(p *plan, files *tlsfiles.Files) {
	p.files = files
	for i, material := range files.Material() {
		l := &p.config.Listeners[i]
		listener := &pb.Listener{
			ProxyFrom: prefixTexts(l.ProxyProtocol), ForwardedFrom: prefixTexts(l.ForwardedFor),
		}
		if l.TLS != nil {
			listener.Tls = &pb.Tls{
				ClientCa: material.ClientCA, ClientRequired: l.TLS.ClientAuth == "required",
			}
			for _, c := range material.Certificates {
				listener.Tls.Certificates = append(listener.Tls.Certificates,
					&pb.CertificateKey{Chain: c.Chain, Key: c.PrivateKey})
			}
		}
		p.snapshot.Listeners = append(p.snapshot.Listeners, listener)
	}
	for _, k := range d.tickets.Keys() {
		p.snapshot.TicketKeys = append(p.snapshot.TicketKeys,
			&pb.TicketKey{Name: k.Name[:], Key: k.Key[:]})
	}
}

// watchFiles puts certificates in force that were replaced on disk, and ticket keys that have
// turned.
func (d *Daemon) watchFiles(ctx context.Context) {
	for !d.ready.Load() {
		select {
		case <-ctx.Done():
			return
		case <-time.After(settlePause):
		}
	}
	tlsfiles.Watch(ctx, func() *tlsfiles.Files { return d.plan.Load().files }, d.tickets,
		func() error { return d.renew(ctx) })
}

// renew has the data plane take up what the files of the config in force hold now. The config
// itself is not read again.
func (d *Daemon) renew(ctx context.Context) error {
	d.reload.Lock()
	defer d.reload.Unlock()
	if !d.ready.Load() {
		return errNotReady
	}
	inForce := d.plan.Load()
	p, err := newPlan(inForce.config, d.store.Catalogue())
	if err != nil {
		return err
	}
	d.equip(p, inForce.files)
	if err := d.prove(ctx, p, false); err != nil {
		return err
	}
	d.guard(p)
	ctx, cancel := context.WithTimeout(ctx, applyPatience)
	defer cancel()
	return d.putInForce(ctx, inForce.config, p)
}

// certificates are those that listeners show, by the listeners' names in the config.
func (d *Daemon) certificates() (list []observe.Certificate) {
	p := d.plan.Load()
	if p == nil || p.files == nil {
		return nil
	}
	for i, material := range p.files.Material() {
		for _, c := range material.Certificates {
			list = append(list, observe.Certificate{
				Listener: p.config.Listeners[i].Address.String(), File: c.Cert, NotAfter: c.NotAfter,
			})
		}
	}
	return list
}

func prefixTexts(prefixes []netip.Prefix) []string {
	var list []string
	for _, p := range prefixes {
		list = append(list, p.String())
	}
	return list
}
