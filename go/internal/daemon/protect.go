package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"sluice/go/internal/breaker"
	"sluice/go/internal/config"
	"sluice/go/internal/protect"
	"sluice/go/internal/share"
	"sluice/go/internal/signal"
	"sluice/go/internal/signal/number"
	"sluice/go/internal/signal/postgres"
	"sluice/go/internal/signal/workers"
)

// openProtection makes the service that leaves sick destinations alone.
func (d *Daemon) openProtection() error {
	o := protect.Options{Changed: d.breakerChanged, Log: d.log}
	w := workers.Options{Log: d.log}
	if redis := d.o.Config.Redis; redis != nil {
		var err error
		if d.redis, err = share.Connect(string(redis.URL.Reveal())); err != nil {
			return fmt.Errorf("redis: %w", err)
		}
		d.board, err = share.New(share.Options{Redis: d.redis, Prefix: redis.Prefix, Log: d.log})
		if err != nil {
			return fmt.Errorf("redis: %w", err)
		}
		o.Board, o.Host = d.board, d.board.Host()
		w.Redis, w.Prefix = d.redis, redis.Prefix
	}
	d.workers = workers.New(w)
	d.protect = protect.New(o)
	return nil
}

// closeProtection gives up what is left when nothing is delivered any more.
func (d *Daemon) closeProtection() error {
	var err error
	if d.board != nil {
		err = d.board.Close()
	}
	if d.redis != nil {
		err = errors.Join(err, d.redis.Close())
	}
	return err
}

// protection is the part of a config that is about leaving destinations alone. Its signals belong
// to the protecting service from then on.
func (d *Daemon) protection(p *plan) (c protect.Config, err error) {
	defer func() {
		if err != nil {
			closeSignals(c)
		}
	}()
	if a := p.config.Alerts; a != nil {
		c.Alerts = protect.Alerts{URL: a.URL.Reveal(), Secret: string(a.Secret.Reveal())}
	}
	for i := range p.config.Groups {
		g := &p.config.Groups[i]
		signals, err := d.signals(g.Name, g.Breaker.Signals)
		c.Groups = append(c.Groups, protect.Group{
			Name: g.Name, Breaker: breakerOf(&g.Breaker, 0, groupProbeTime(p.config, g.Name)),
			Signals: signals,
		})
		if err != nil {
			return c, fmt.Errorf("group %s: %w", g.Name, err)
		}
	}
	for i := range p.config.Destinations {
		to := &p.config.Destinations[i]
		id := idOf(p.catalogue.Destinations, to.Name)
		signals, err := d.signals(to.Name, to.Breaker.Signals)
		c.Targets = append(c.Targets, protect.Target{
			ID: id, Name: to.Name, Groups: to.Breaker.Groups, Signals: signals,
			Breaker: breakerOf(&to.Breaker, rateOf(to.Rate), probeTime(to)),
			Limit:   func() int { return d.deliver.Limit(id) },
		})
		if err != nil {
			return c, fmt.Errorf("destination %s: %w", to.Name, err)
		}
	}
	return c, c.Check()
}

func closeSignals(c protect.Config) {
	for _, g := range c.Groups {
		for _, s := range g.Signals {
			_ = s.Source.Close() // it has measured nothing yet
		}
	}
	for _, t := range c.Targets {
		for _, s := range t.Signals {
			_ = s.Source.Close()
		}
	}
}

// probeTime is how long a probe may take: as long as an attempt may, and what it waits before.
func probeTime(d *config.Destination) time.Duration {
	attempt := breaker.ProbeTimeDefault
	switch {
	case d.HTTP != nil:
		attempt = d.HTTP.Timeout
	case d.Postgres != nil:
		attempt = d.Postgres.AcquireTimeout + d.Postgres.StatementTimeout
	}
	return attempt + 5*time.Second
}

// groupProbeTime is that of the member that takes longest.
func groupProbeTime(c *config.Config, name string) time.Duration {
	longest := breaker.ProbeTimeDefault
	for i := range c.Destinations {
		if d := &c.Destinations[i]; slices.Contains(d.Breaker.Groups, name) {
			longest = max(longest, probeTime(d))
		}
	}
	return longest
}

func breakerOf(b *config.Breaker, rate float64, probe time.Duration) breaker.Config {
	c := breaker.Config{
		Failures: b.Failures, Ratio: b.Ratio, Window: b.Window, Samples: b.Samples,
		Latency: b.Latency, DeadLetters: b.DeadLetters.PerSecond() * 60, Inflight: b.Inflight,
		Cooldown: b.Cooldown, CooldownMax: b.CooldownMax, RampStep: b.RampStep,
		Rate: rate, ProbeTime: probe,
	}
	for _, step := range b.Ramp {
		c.Ramp = append(c.Ramp, float64(step))
	}
	return c
}

// signals makes the sources of a breaker. After an error those before it are given all the same.
func (d *Daemon) signals(name string, configured []config.Signal) ([]protect.Signal, error) {
	var list []protect.Signal
	for i := range configured {
		s := &configured[i]
		source, err := d.source(name, s)
		if err != nil {
			return list, err
		}
		list = append(list, protect.Signal{
			Name: s.Name, Interval: s.Interval, For: s.For, Source: source,
		})
	}
	return list, nil
}

func (d *Daemon) source(name string, s *config.Signal) (signal.Source, error) {
	switch {
	case s.Postgres != nil:
		p := s.Postgres
		return postgres.New(postgres.Options{
			URL: string(p.URL.Reveal()), Pool: threshold(p.Pool.Threshold),
			Application: p.Pool.Application, Size: p.Pool.Size,
			Locks: threshold(p.Locks.Threshold), After: p.Locks.After,
			Blocked: threshold(p.Blocked), Log: d.log,
		})
	case s.HTTP != nil:
		h := s.HTTP
		return number.JSON(number.Options{
			URL: h.URL.Reveal(), Name: s.Name, Threshold: threshold(h.Threshold), Pool: h.Pool,
			Timeout: h.Timeout,
		}, h.Pointer)
	case s.Prometheus != nil:
		m := s.Prometheus
		return number.Prometheus(number.Options{
			URL: m.URL.Reveal(), Name: s.Name, Threshold: threshold(m.Threshold), Pool: m.Pool,
			Timeout: m.Timeout,
		}, m.Query)
	}
	w := s.Workers
	return d.workers.Source(workers.SourceOptions{
		Breaker: name, Name: s.Name, Threshold: threshold(w.Threshold), After: w.After,
		Redis: w.Redis,
	})
}

func threshold(t config.Threshold) signal.Threshold {
	return signal.Threshold{Trip: t.Trip, Recover: t.Recover}
}

// guard makes intake tell senders the truth: 202 while a destination of theirs is left alone.
func (d *Daemon) guard(p *plan) {
	notClosed := d.protect.NotClosed // one closure, not one a frame
	for _, s := range p.table.Sources {
		to := s.Destinations
		if len(to) == 0 {
			continue
		}
		s.Degraded = func() bool { return slices.ContainsFunc(to, notClosed) }
	}
}

// breakerChanged hears each transition.
func (d *Daemon) breakerChanged(c protect.Change) {
	if !c.Moved() {
		return
	}
	d.metrics.Transitioned(c.Breaker, c.To.String())
	level := slog.LevelInfo
	if c.To == breaker.Open {
		level = slog.LevelWarn
	}
	d.log.Log(context.Background(), level, "breaker", "name", c.Breaker, "from", c.From, "to", c.To,
		"reason", c.Reason)
	p, waiting := d.plan.Load(), d.seenIngest.Load()
	if c.From != breaker.Closed || p == nil || waiting == nil {
		return
	}
	for i := range p.config.Destinations {
		to := &p.config.Destinations[i]
		if to.Name == c.Breaker || slices.Contains(to.Breaker.Groups, c.Breaker) {
			waiting.Opened(idOf(p.catalogue.Destinations, to.Name))
		}
	}
}
