// Package rhythm tells when a sender is quiet for longer than is usual for it.
//
// It reads no clock, counts nothing itself and alarms nobody: it is told at which times a sender
// was heard, and says how surprising its silence is.
//
// # How
//
// A rhythm knows for each hour of the week, in UTC, in how many of its minutes the sender is
// usually heard: the mean over the weeks, the last ones counting more. The weight of a silence is
// the sum of that over it: how many minutes should have had an event by now. By that measure a
// night or a weekend weighs nothing where nobody sends then.
//
// Senders that come in bursts have weighty silences every day, so a silence is measured against the
// sender's own: it is unusual when it weighs at least WeightMin, and Factor times as much as the
// heaviest silence of the last two weeks. Events that came independently of each other would leave
// a silence of WeightMin minutes with a probability of exp(-WeightMin).
//
// An hour of the week that was never observed weighs nothing, so nothing is unusual before the
// sender is known for a while, never in the first day.
//
// # What was not observed
//
// Nobody is silent while nobody listens. Observe is told of each look; what lies between two looks
// that are far apart was not observed: it teaches nothing, and a silence begins anew behind it.
package rhythm
