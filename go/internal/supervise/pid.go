package supervise

import (
	"encoding/binary"
	"os"

	"sluice/shm-abi/shmabi"
)

// pidOf reads the pid that a data plane left in its counters file; 0: none is legible.
func pidOf(counters string) int {
	head := make([]byte, shmabi.CountersHeaderSize)
	file, err := os.Open(counters)
	if err != nil {
		return 0
	}
	defer file.Close()
	if _, err := file.ReadAt(head, 0); err != nil {
		return 0
	}
	if binary.LittleEndian.Uint64(head[shmabi.CountersHeaderMagicOffset:]) != shmabi.CountersMagic {
		return 0
	}
	return int(binary.LittleEndian.Uint32(head[shmabi.CountersHeaderPidOffset:]))
}
