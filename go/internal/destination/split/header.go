package split

import (
	"bytes"
	"strconv"

	"sluice/go/internal/event"
	"sluice/shm-abi/shmabi"
)

// Header is the field by which an event tells of which original it was an item: the original's ID
// and the item's number, which begin at 0, with a slash between them.
const Header = "X-Event-Batch"

// framing are the fields of an original that are not an item's: its length, and what its sender may
// have put where ours is.
var framing = [][]byte{[]byte("Content-Length"), []byte("Transfer-Encoding"), []byte(Header)}

func headerValue(original event.ID, number uint32) string {
	return original.String() + "/" + strconv.FormatUint(uint64(number), 10)
}

// Of tells of which original an event was an item. A sender cannot pretend it: the ID of an event
// follows from where it was received, and that of an item from its original's.
func Of(e *shmabi.Event) (original event.ID, number uint32, yes bool) {
	for i := range e.HeaderCount() {
		name, value := e.Header(i)
		if !bytes.EqualFold(name, []byte(Header)) {
			continue
		}
		text, digits, _ := bytes.Cut(bytes.TrimSpace(value), []byte{'/'})
		n, err := strconv.ParseUint(string(digits), 10, 32)
		if err != nil {
			continue
		}
		original, err = event.ParseID(string(text))
		if err == nil && original.Item(uint32(n)) == event.ID(e.Frame().C().EventID()) {
			return original, uint32(n), true
		}
	}
	return event.ID{}, 0, false
}
