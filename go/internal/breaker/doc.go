// Package breaker decides when a destination is left alone and how it comes back.
//
// It sends nothing, measures nothing and reads no clock: outcomes, levels, leases and the time are
// handed in; admissions, transitions and what other hosts should hear come out. The time is a
// time.Time with its monotonic reading, so that a wall clock that is set moves nothing; a time
// before the last one counts as the last one.
//
// # States
//
//	           trip                     cooldown over, no level sick
//	CLOSED ───────────▶ OPEN ───────────────────────────────▶ HALF_OPEN 0  probe
//	   ▲                 ▲ ▲    probe failed, trip: 2×cooldown    │   one attempt, under a lease
//	   │                 │ └──────────────────────────────────────┤
//	   │                 │                                        ▼ it succeeded
//	   │                 └─────────────────────────────────── HALF_OPEN 1 … n  ramp
//	   │   healthy for a cooldown and drained                     │   step's rate, RampStep each
//	   └────────────────────────────────────────────────── HALF_OPEN n+1  drain
//
// One Breaker is that of one destination or of one group. Its members are the destinations that
// pass through it; a destination's own has one.
//
// A trip is what the config asks for: failures in a row, their ratio, the p99 of latency, dead
// letters, a jam (in-flight near its limit while next to nothing is answered), or a level that has
// been at its Trip for long enough. An attempt that began before the breaker opened says nothing
// afterwards.
//
// # Levels
//
// A level is sick from the moment it reaches Trip until it has been below Recover for a whole
// cooldown. A sick level holds the probe back, and the way to CLOSED. One that never reached Trip
// holds nothing back, wherever it hovers: else a pool that others keep at 60 % would never let
// anything recover. Of a dead source the last state stays: it never trips, and what was sick holds
// the probe back for StaleHold at most; then the probe itself is the measurement.
//
// # Ramp
//
// The first failure in a step goes back one step, never below the first. A step that failed once is
// judged by the ratio afterwards, as CLOSED is: a destination with a few poisoned events would
// otherwise never come back. With a pool level the rate is also at most max × (1 − use), where max
// is the configured rate, else the most that was seen or ramped to. The latter doubles every
// RampStep once the ramp is over, while it binds and the pool is below Recover: a bound learned in
// a quiet night would hold a backlog for ever.
//
// Health is counted from the probe on, and anew from each setback, not from the end of the ramp:
// the ramp's own attempts are evidence already. CLOSED still waits for the ramp's end, and until
// each member has told that nothing due waits, so that nothing overtakes.
//
// A crash leaves nothing: a breaker begins CLOSED, or where other hosts say it is.
package breaker
