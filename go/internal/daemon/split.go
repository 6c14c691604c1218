package daemon

import (
	"context"
	"time"

	"sluice/go/internal/config"
	"sluice/go/internal/deliver"
	"sluice/go/internal/destination/split"
	"sluice/go/internal/event"
	"sluice/go/internal/provider"
	"sluice/go/internal/retry"
	"sluice/shm-abi/shmabi"
)

// splitPrefix begins the names of the destinations that take originals apart; no destination of a
// config can have one like it.
const splitPrefix = "split:"

const (
	splitConcurrency = 4 // they wait for the same disk
	splitRetryMax    = time.Minute
)

// splitting is how the originals of one source are taken apart.
type splitting struct {
	id    uint32 // of the splitter among destinations
	route uint32 // of the items
	order func(*provider.Request) uint64
}

// addSplitting gives a source that splits, or has ever done so, its splitter, and tells where its
// originals go. Originals that still wait when a source splits no more go on whole.
func (p *plan) addSplitting(s *config.Source, id uint32, names *event.Catalogue, to []uint32,
	order func(*provider.Request) uint64) (originals []uint32) {
	name := splitPrefix + s.Name
	if !s.Split && idOf(names.Destinations, name) == 0 {
		return to
	}
	splitter := numberOf(&names.Destinations, name)
	p.splittings[s.Name] = splitting{splitter, routeOf(names, id, to), order}
	if !s.Split {
		return to
	}
	return []uint32{splitter}
}

// splitters are the destinations that take originals apart.
func (d *Daemon) splitters(p *plan) (list []deliver.Target) {
	for i := range p.config.Sources {
		s := &p.config.Sources[i]
		how, splits := p.splittings[s.Name]
		if !splits {
			continue
		}
		o := split.Options{
			Route: how.route, Dedup: s.Dedup, OrderKey: how.order, Log: d.log,
			Read: d.readFrame, Derive: d.derive, Whole: func() { d.metrics.Whole(s.Name) },
		}
		if s.Split {
			o.Batch = p.schemes[idOf(p.catalogue.Sources, s.Name)].Batch
		}
		list = append(list, deliver.Target{
			ID: how.id, Name: splitPrefix + s.Name, Destination: split.New(o),
			Concurrency: deliver.Fixed(splitConcurrency),
			// It fails where the journal does, and is given up never.
			Retry: retry.Policy{Max: splitRetryMax, Attempts: retry.AttemptsMax},
		})
	}
	return list
}

func (d *Daemon) readFrame(seq event.Seq) (shmabi.Frame, func(), error) {
	payload, err := d.store.Read(seq)
	if err != nil {
		return nil, nil, err
	}
	return payload.Frame(), payload.Release, nil
}

func (d *Daemon) derive(ctx context.Context, frames []shmabi.Frame) error {
	_, err := d.store.Derive(ctx, frames)
	return err
}
