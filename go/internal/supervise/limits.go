package supervise

import "time"

const (
	helloPatience = 2 * time.Second  // of one that should be there
	startPatience = 20 * time.Second // of one that was just started
	applyPatience = 12 * time.Second
	nonePatience  = 3 * time.Second // until the next one accepts
	nonePause     = 5 * time.Millisecond
	fdsPatience   = 500 * time.Millisecond
	exitPatience  = 100 * time.Millisecond // between a closed socket and the end of its process

	// retireGrace is what an older generation has to finish what it has; a request may be that long.
	retireGrace = 30 * time.Second

	backoffMin  = 50 * time.Millisecond
	backoffMax  = 5 * time.Second
	steadyAfter = 10 * time.Second // a generation that lived so long resets the backoff

	// orphansMax and eldersMax bound what dead and ending generations hold of tmpfs.
	orphansMax    = 4
	orphansPause  = 100 * time.Millisecond
	eldersMax     = 1
	wordsBytesMax = 2048 // of what a generation said before it ended
)
