package signal

import (
	"time"

	"sluice/go/internal/breaker"
)

// Threshold is where a measured number is sick, and below what it is well again.
type Threshold struct {
	Trip    float64 // at or above it; 0: the number is not looked at
	Recover float64 // below it; less than Trip
	// For is how long it must be sick without a break before it trips; 0: at once.
	For time.Duration
}

// Level is what a measured value says.
func (t Threshold) Level(name string, value float64) breaker.Level {
	return breaker.Level{Signal: name, Value: value, Trip: t.Trip, Recover: t.Recover, For: t.For}
}

// PoolLevel is what the used share of a pool says; what is outside 0 to 1 is taken for the end.
func (t Threshold) PoolLevel(name string, share float64) breaker.Level {
	l := t.Level(name, min(max(share, 0), 1))
	l.Pool = true
	return l
}
