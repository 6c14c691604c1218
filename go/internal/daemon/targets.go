package daemon

import (
	"fmt"
	"io"
	"time"

	"sluice/go/internal/config"
	"sluice/go/internal/deliver"
	"sluice/go/internal/destination"
	"sluice/go/internal/destination/file"
	"sluice/go/internal/destination/http"
	"sluice/go/internal/destination/stdout"
	"sluice/go/internal/event"
	"sluice/go/internal/retry"
)

const (
	idleConnection = 90 * time.Second
	retryAfterMax  = time.Hour
)

// targets makes the destinations of a config. Each belongs to the delivery service from then on.
func targets(p *plan, out io.Writer) ([]deliver.Target, error) {
	var list []deliver.Target
	for i := range p.config.Destinations {
		d := &p.config.Destinations[i]
		to, err := dial(d, out)
		if err != nil {
			closeTargets(list)
			return nil, fmt.Errorf("destination %s: %w", d.Name, err)
		}
		concurrency := deliver.Fixed(deliver.AutoLimit)
		if d.Concurrency > 0 {
			concurrency = deliver.Fixed(d.Concurrency)
		}
		list = append(list, deliver.Target{
			ID: idOf(p.catalogue.Destinations, d.Name), Name: d.Name, Destination: to,
			Retry: retry.Policy{
				Base: d.Retry.Base, Max: d.Retry.Max, Attempts: d.Retry.Attempts,
			},
			Concurrency: concurrency,
		})
	}
	return list, nil
}

// closeTargets gives up targets that nobody serves.
func closeTargets(list []deliver.Target) {
	for _, t := range list {
		_ = t.Destination.Close() // it has delivered nothing yet
	}
}

func dial(d *config.Destination, out io.Writer) (destination.Destination, error) {
	switch d.Kind() {
	case "http":
		count := int(d.Concurrency)
		if count == 0 {
			count = deliver.AutoLimit
		}
		return http.New(http.Options{
			URL: d.HTTP.URL, Timeout: d.HTTP.Timeout, IdleTimeout: idleConnection,
			IdleCount: count, DropHeaders: d.DropHeaders, RetryAfterMax: retryAfterMax,
		})
	case "file":
		return file.New(file.Options{Path: d.File.Path})
	case "stdout":
		return stdout.New(stdout.Options{Writer: out})
	}
	return nil, fmt.Errorf("%s destinations are not supported by this version", d.Kind())
}

func idOf(list []event.Named, name string) uint32 {
	for _, n := range list {
		if n.Name == name {
			return n.ID
		}
	}
	return 0
}
