package lane

import (
	"errors"
	"fmt"
)

var (
	// ErrCorrupt says that the data plane left a word or a frame that cannot be. The lane is to be
	// retired; what was verified before stays good.
	ErrCorrupt = errors.New("the data plane left what cannot be")
	// ErrForeign says that a file was laid out by another version, or is no lane at all.
	ErrForeign = errors.New("not a lane of this version")
	// ErrUnfinished says that the magic is not written: the producer died, or is still at work.
	ErrUnfinished = errors.New("a lane that was never finished")
	// ErrOtherBoot says that the host was restarted since: positions mean nothing any more.
	ErrOtherBoot = errors.New("a lane of another boot")
	// ErrOtherJournal says that the lane feeds another journal.
	ErrOtherJournal = errors.New("a lane of another journal")
)

func corrupt(word string, value uint64) error {
	return fmt.Errorf("%w: %s = %#x", ErrCorrupt, word, value)
}
