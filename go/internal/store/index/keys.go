package index

import (
	"encoding/binary"
	"math"
	"time"

	"sluice/go/internal/event"
)

const (
	rowEvent      = 'e'
	rowUnfinished = 'u'
	rowGivenUp    = 'v'
	rowDuplicate  = 'y'
	rowDead       = 'x'
	rowFresh      = 'f'
	rowTimed      = 'd'
	rowOrder      = 'q'
	rowAttempt    = 'a'
	rowDedup      = 'k'
	rowTick       = 't'
	rowSource     = 'l'
	rowGoesTo     = 'g'
	rowType       = 'w'
	rowTypeName   = 'n'
	rowLate       = 'o'
	rowSenderID   = 'p'
	rowRepeat     = 'r'
	rowMeta       = 'm'
)

const (
	chunkGroups = 16                                     // groups in a chunk
	tickNS      = int64(64 * time.Millisecond)           // resolution of received times in t rows
	dayNS       = int64(24 * time.Hour)                  // width of a dedup bucket
	maxSeq      = event.Seq(math.MaxUint64)              // sorts behind every event
	chunkShift  = 16 + 4                                 // seq to chunk
	_           = uint(1<<(chunkShift-16) - chunkGroups) // the shift and the count agree
	_           = uint(chunkGroups - 1<<(chunkShift-16))
)

func seqKey(row byte, seq event.Seq) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, 24), row), uint64(seq))
}

func deadKey(seq event.Seq, dest uint32) []byte {
	return binary.BigEndian.AppendUint32(seqKey(rowDead, seq), dest)
}

func attemptKey(seq event.Seq, n uint32) []byte {
	return binary.BigEndian.AppendUint32(seqKey(rowAttempt, seq), n)
}

func destKey(row byte, dest uint32) []byte {
	return binary.BigEndian.AppendUint32(append(make([]byte, 0, 24), row), dest)
}

func freshKey(dest uint32, seq event.Seq) []byte {
	return binary.BigEndian.AppendUint64(destKey(rowFresh, dest), uint64(seq))
}

func timedKey(dest uint32, due int64, seq event.Seq) []byte {
	k := binary.BigEndian.AppendUint64(destKey(rowTimed, dest), uint64(due))
	return binary.BigEndian.AppendUint64(k, uint64(seq))
}

func orderPrefix(dest uint32, key uint64) []byte {
	return binary.BigEndian.AppendUint64(destKey(rowOrder, dest), key)
}

func orderKey(dest uint32, key uint64, seq event.Seq) []byte {
	return binary.BigEndian.AppendUint64(orderPrefix(dest, key), uint64(seq))
}

const (
	dedupPartBytes = 1 + 4 + 2 // of a key that all rows of a part begin with
	dedupKeyBytes  = dedupPartBytes + 4 + 16
)

func dedupKey(day uint32, part uint16, source uint32, key *[16]byte) []byte {
	k := make([]byte, dedupKeyBytes)
	putDedupKey(k, day, part, source, key)
	return k
}

func putDedupKey(k []byte, day uint32, part uint16, source uint32, key *[16]byte) {
	_ = k[dedupKeyBytes-1]
	k[0] = rowDedup
	binary.BigEndian.PutUint32(k[1:], day)
	binary.BigEndian.PutUint16(k[5:], part)
	binary.BigEndian.PutUint32(k[7:], source)
	copy(k[11:], key[:])
}

// dedupDayKey sorts before all dedup rows of a day.
func dedupDayKey(day uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{rowDedup}, day)
}

// dedupPartKey sorts before all dedup rows of a part.
func dedupPartKey(day uint32, part uint16) []byte {
	return binary.BigEndian.AppendUint16(dedupDayKey(day), part)
}

// dedupPartEnd sorts behind all dedup rows of a part.
func dedupPartEnd(day uint32, part uint16) []byte {
	if part == math.MaxUint16 {
		return dedupDayKey(day + 1)
	}
	return dedupPartKey(day, part+1)
}

func tickKey(received int64, chunk uint64) []byte {
	k := binary.BigEndian.AppendUint64(append(make([]byte, 0, 17), rowTick), tickOf(received))
	return binary.BigEndian.AppendUint64(k, chunk)
}

// wayKey is an l, g or w row: from a source, a destination or a type to a chunk.
func wayKey(row byte, from uint32, chunk uint64) []byte {
	return binary.BigEndian.AppendUint64(destKey(row, from), chunk)
}

func lateKey(chunk, minute uint64) []byte {
	k := binary.BigEndian.AppendUint64(append(make([]byte, 0, 17), rowLate), chunk)
	return binary.BigEndian.AppendUint64(k, minute)
}

const senderIDPartBytes = 1 + 4 // of a key that all rows of a part begin with

func senderIDKey(part uint32, bucket uint16, seq event.Seq) []byte {
	k := binary.BigEndian.AppendUint16(senderIDPartKey(part), bucket)
	return binary.BigEndian.AppendUint64(k, uint64(seq))
}

// senderIDPartKey sorts before all p rows of a part.
func senderIDPartKey(part uint32) []byte { return destKey(rowSenderID, part) }

func typeNameKey(number uint32) []byte { return destKey(rowTypeName, number) }

func tickOf(received int64) uint64      { return uint64(max(received, 0) / tickNS) }
func chunkOf(seq event.Seq) uint64      { return uint64(seq) >> chunkShift }
func dayOf(ns int64) uint32             { return uint32(max(ns, 0) / dayNS) }
func chunkStart(chunk uint64) event.Seq { return event.Seq(chunk << chunkShift) }

// seqAt reads the seq at the end of a key.
func seqAt(key []byte) event.Seq {
	return event.Seq(binary.BigEndian.Uint64(key[len(key)-8:]))
}
