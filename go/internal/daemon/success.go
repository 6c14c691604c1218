package daemon

import (
	"slices"

	"sluice/go/internal/provider"
)

// The statuses with which a stored event is answered: ours, unless the sender names those that it
// takes for success and ours is not among them. Another 2xx is a failure to such a sender: it sends
// again what is stored, and gives up on the source in the end.
const (
	statusAccepted = 200
	statusQueued   = 202
)

// acceptedStatus is that of an event that is stored as its source asks for.
func acceptedStatus(c *provider.Contract) uint32 {
	all := c.SuccessStatuses.Value
	if len(all) == 0 || slices.Contains(all, statusAccepted) {
		return statusAccepted
	}
	if wanted := c.SuccessStatus.Or(0); slices.Contains(all, wanted) {
		return uint32(wanted)
	}
	return uint32(all[0])
}

// queuedStatus is that of an event that will be delivered later.
func queuedStatus(c *provider.Contract) uint32 {
	all := c.SuccessStatuses.Value
	if len(all) == 0 || slices.Contains(all, statusQueued) {
		return statusQueued
	}
	return acceptedStatus(c)
}
