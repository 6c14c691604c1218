package daemon

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"sluice/go/internal/config"
	"sluice/go/internal/deliver"
	"sluice/go/internal/destination"
	"sluice/go/internal/destination/egress"
	"sluice/go/internal/destination/file"
	"sluice/go/internal/destination/http"
	"sluice/go/internal/destination/postgres"
	"sluice/go/internal/destination/stdout"
	"sluice/go/internal/destination/transform"
	"sluice/go/internal/event"
	"sluice/go/internal/retry"
)

const (
	idleConnection = 90 * time.Second
	retryAfterMax  = time.Hour
)

// targets makes the destinations of a config. Each belongs to the delivery service from then on.
func (d *Daemon) targets(p *plan) ([]deliver.Target, error) {
	var list []deliver.Target
	for i := range p.config.Destinations {
		t, err := target(&p.config.Destinations[i], d.o.Stdout, d.log)
		if err != nil {
			closeTargets(list)
			return nil, fmt.Errorf("destination %s: %w", p.config.Destinations[i].Name, err)
		}
		t.ID = idOf(p.catalogue.Destinations, t.Name)
		list = append(list, t)
	}
	return append(list, d.splitters(p)...), nil
}

// closeTargets gives up targets that nobody serves.
func closeTargets(list []deliver.Target) {
	for _, t := range list {
		_ = t.Destination.Close() // it has delivered nothing yet
	}
}

func target(d *config.Destination, out io.Writer, log *slog.Logger) (deliver.Target, error) {
	t := deliver.Target{
		Name: d.Name, Concurrency: deliver.Auto{}, Block: d.OnDead == "block",
		Retry:    retry.Policy{Base: d.Retry.Base, Max: d.Retry.Max, Attempts: d.Retry.Attempts},
		Schedule: d.Retry.Schedule, Rate: rateOf(d.Rate),
	}
	if d.Concurrency > 0 {
		t.Concurrency = deliver.Fixed(d.Concurrency)
	}
	if d.Filter != "" {
		filter, err := transform.NewFilter(d.Filter)
		if err != nil {
			return t, err
		}
		t.Filter = filter
	}
	if d.Transform != nil {
		made, err := transform.NewTransform(d.Transform.Kind, d.Transform.Text)
		if err != nil {
			return t, err
		}
		t.Transform = made
	}
	var err error
	t.Destination, err = dial(d, out, log)
	return t, err
}

func dial(d *config.Destination, out io.Writer, log *slog.Logger) (destination.Destination, error) {
	switch d.Kind() {
	case "http":
		return dialHTTP(d)
	case "file":
		return file.New(file.Options{Path: d.File.Path})
	case "stdout":
		return stdout.New(stdout.Options{Writer: out})
	}
	to := d.Postgres
	return postgres.New(postgres.Options{
		URL: string(to.URL.Reveal()), Table: to.Table, CreateTable: to.CreateTable, Pool: to.Pool,
		AcquireTimeout: to.AcquireTimeout, LockTimeout: to.LockTimeout,
		StatementTimeout: to.StatementTimeout, IdleTransactionTimeout: to.IdleTimeout, Batch: to.Batch,
	})
}

func dialHTTP(d *config.Destination) (destination.Destination, error) {
	to := d.HTTP
	o := http.Options{
		URL: to.URL, Timeout: to.Timeout, IdleTimeout: idleConnection, IdleCount: deliver.AutoMax,
		DropHeaders: d.DropHeaders, RetryAfterMax: retryAfterMax,
		Protocol: http.Protocol(to.Protocol), Proxy: to.Proxy.Reveal(),
		Egress: egress.New(to.Egress.Allow, to.Egress.Deny),
	}
	if d.Concurrency > 0 {
		o.IdleCount = int(d.Concurrency)
	}
	for _, h := range to.Headers {
		o.Headers = append(o.Headers, http.Header{Name: h.Name, Value: h.Value.Reveal()})
	}
	if to.Sign != nil {
		for _, secret := range to.Sign.Secrets {
			o.Secrets = append(o.Secrets, string(secret.Reveal()))
		}
	}
	if to.TLS != nil {
		o.TLSFiles = http.TLSFiles{
			CA: to.TLS.CA, Cert: to.TLS.Cert, Key: to.TLS.Key, ServerName: to.TLS.ServerName,
		}
	}
	return http.New(o)
}

func idOf(list []event.Named, name string) uint32 {
	for _, n := range list {
		if n.Name == name {
			return n.ID
		}
	}
	return 0
}
