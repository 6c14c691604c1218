package tlsfiles

import "time"

const (
	lookInterval = time.Second
	// lookAgain is for how many looks after a change a file is read whatever stat says: its times
	// have the resolution of the kernel's clock tick.
	lookAgain = 3
	// refusedAgain is when what the data plane did not take is offered to it again.
	refusedAgain = time.Minute

	fileBytesMax = 1 << 20

	// expiresSoon is when a certificate that nobody renewed is worth a warning: those that renew
	// themselves do so weeks earlier.
	expiresSoon = 14 * 24 * time.Hour

	ticketSeals = 12 * time.Hour
	ticketOpens = 24 * time.Hour
	// ticketKeysMax bounds the file; three are there where the clock jumped.
	ticketKeysMax = 8
)
