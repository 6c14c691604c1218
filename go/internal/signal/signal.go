// Package signal is the port through which the health of a destination, or of what it depends on,
// is measured; the adapters below it each know one kind of place to ask.
//
// It decides nothing: what a level means is the breaker's business, and when to ask is the
// protector's.
package signal

import (
	"context"

	"sluice/go/internal/breaker"
)

// Source gives the levels of one thing that can be measured.
type Source interface {
	// Read asks once and returns soon after ctx ends. An error tells that the source is dead: what
	// it measures is neither well nor sick then, and the last levels stay, flagged as stale. No
	// level and no error means that there is nothing to say yet.
	Read(ctx context.Context) ([]breaker.Level, error)
	// Close frees what the source holds. No Read may run or follow.
	Close() error
}
