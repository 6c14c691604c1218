package listen

import "time"

const (
	// bindPatience is how long an address that is taken is tried again: the sockets of a process
	// that was killed live on for some milliseconds, those of an io_uring for up to 12.
	bindPatience = 2 * time.Second
	bindInterval = 50 * time.Millisecond

	// receiveBuffer bounds what one sender can have under way.
	receiveBuffer = 256 << 10

	backlogDefault = 4096

	// keepAliveProbes go out over as long a time again as the silence before them.
	keepAliveProbes = 4

	// inheritedMax bounds what systemd is believed to have passed.
	inheritedMax = 1024
)
