// Package admission decides how many requests may be in flight, how long one may be held while
// there is more than that, and what share of the throughput each source has.
//
// It decides about no single request: the data plane does that, by the numbers made here from what
// the data plane has counted. It reads no clock, starts nothing and keeps nothing on disk; the same
// counters at the same times give the same numbers, bit for bit.
//
// A Limiter differences the counters of a tick into a Window and hands it to a Controller, which
// moves the limit. The hold bound, the shares, the floor and the pacing are the Limiter's own and
// the same whatever the algorithm.
package admission
