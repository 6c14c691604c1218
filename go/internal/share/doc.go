// Package share lets hosts that deliver to the same destinations tell each other, through Redis,
// where their breakers stand, and grants one of them the probe.
//
// It judges no state and keeps nothing on a disk: what a note means is the breaker's business, and
// everything in Redis can be lost without harm.
//
// A Board is in one of two states, and only its own goroutine moves it:
//
//	alone   Redis is not reached. Notes are kept, the newest of each breaker; probes are granted
//	        here, each host's to itself. It tries again with a growing pause.
//	joined  It is subscribed, has read what others said before, and has said what it knew itself.
//	        An error, or a silence where an answer is due, makes it alone.
//
// Below the prefix there is in Redis (version 5 or later):
//
//	{prefix}:notes        channel and hash: each note as it is made, and the newest of each breaker
//	{prefix}:hosts        sorted set: the hosts, each with the time at which it counts as gone
//	{prefix}:probe:NAME   the token of the host that may probe, with the lease as its TTL
//	{prefix}:token        the last token
//
// A crash leaves a host in the set and a probe leased until their times are over. The hash is
// dropped a day after the last host was seen.
package share
