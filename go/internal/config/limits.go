package config

import "time"

// patienceMin and patienceMax bound what a slot may cost: under a millisecond no disk would be
// worth waiting for, over a minute no sender waits.
const (
	patienceMin = time.Millisecond
	patienceMax = time.Minute
)

const (
	// deferAcceptMax is where the kernel's own patience with a handshake ends.
	deferAcceptMax = time.Minute
	// keepAliveMax is what TCP_KEEPIDLE takes (MAX_TCP_KEEPIDLE).
	keepAliveMax = 32767 * time.Second
)

// The named maxima of a config. Those of the shared memory repeat what its layout fixes.
const (
	fileBytesMax   = 4 << 20
	secretBytesMax = 64 << 10

	workersMax      = 64   // the layout's WORKERS_MAX
	sourcesMax      = 1024 // the layout's SOURCES_MAX
	destinationsMax = 1024
	secretsMax      = 128 // DocuSign signs with up to 100 keys
	sealKeysMax     = 8
	sealKeyBytes    = 32 // AES-256
	commandArgsMax  = 64
	groupsMax       = 256
	memberMax       = 8  // groups of one destination
	signalsMax      = 16 // of one breaker
	attemptsMax     = 1000
	headersMax      = 64 // that a destination adds
	signersMax      = 8  // secrets that sign one request
	expressionMax   = 16 << 10

	ringSizeMin    = 64 << 10
	ringSizeMax    = 16 << 30
	headerMin      = 1 << 10
	headerMax      = 64 << 10 // header offsets in a frame are 16 bits
	bodyMin        = 1
	bodyMax        = 1 << 30
	methodMax      = 24 // bytes of the method in a frame
	nameMax        = 63
	pathMax        = 1024
	unixPathMax    = 107 // sun_path with its NUL
	socketNameMax  = 255 // of systemd
	backlogMax     = 1 << 16
	clientNamesMax = 256 // of one source
	clientNameMax  = 1024
	limitMax       = 1 << 20 // requests in flight
	heldMax        = 1 << 16 // the data plane's HELD_MAX
	suggestedMax   = 28      // more known keys than this are not listed in a fault

	// framePartOfRing: one frame takes at most a quarter of its ring.
	framePartOfRing = 4
	// frameOverhead is what a frame holds beside target, headers and body: two header lines, the
	// payload head, an index entry of 8 bytes for each of 256 headers, and the padding of three
	// parts to whole lines.
	frameOverhead = 64 + 64 + 64 + 8*256 + 3*64
)

const (
	// A command is a process each time, and what it asks is mostly another service.
	commandEveryMin   = time.Second
	commandEveryMax   = 24 * time.Hour
	commandTimeoutMin = 100 * time.Millisecond
	commandTimeoutMax = time.Minute
)

const (
	// keptFrames: a worker has room for so many of the largest request, half of it for one source.
	keptFrames = 2
	// keptHead is what a request takes there beside its body.
	keptHead = Size(128 << 10)
)

// FrameMax is the most bytes that one request within the bounds takes in a ring.
func FrameMax(maxHeader, maxBody Size) Size { return maxBody + maxHeader + frameOverhead }
