package daemon

import (
	"math"
	"time"

	"sluice/go/internal/config"
	"sluice/go/internal/store"
)

// retentionOf is what a config lets the store drop.
func retentionOf(c *config.Config) store.Retention {
	r := c.Journal.Retention
	return store.Retention{
		MaxAge: time.Duration(r.Age), MaxBytes: int64(r.Size), DeadAge: time.Duration(r.Dead),
	}
}

// drain is how many seconds a backlog takes at the rate of now.
func drain(d store.DestinationStats) float64 {
	if span, ends := d.Drain(); ends {
		return span.Seconds()
	}
	return math.Inf(1)
}
