package daemon

import (
	"sluice/go/internal/doctor"
	"sluice/go/internal/store/index"
)

// dedupShare is the part of the memory that dedup may take: 500 million open keys on a host of
// 24 GiB. They take it as they come.
const dedupShare = 16

// DedupMemory is how many bytes the filters of dedup keys may take on this host, which is no less
// than the store takes on its own.
func DedupMemory() int64 {
	memory, _ := doctor.Host{}.Memory()
	return max(memory/dedupShare, index.FilterBytes)
}
