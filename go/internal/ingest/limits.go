package ingest

import (
	"runtime"

	"sluice/go/internal/event"
	"sluice/go/internal/provider"
)

// A sender whose key is not known yet comes again after so many seconds, spread so that those who
// came together do not come together again.
const (
	retryAfterMin    = 2
	retryAfterSpread = 4
)

// The journal keeps a reason in four bits.
const _ = uint(event.DoubtMax - provider.Unavailable)

// heavyGoroutines is how many proofs that take long are judged at once, over all lanes: a processor
// is left to those that do not, and to all else.
func heavyGoroutines() int { return max(1, runtime.GOMAXPROCS(0)-1) }
