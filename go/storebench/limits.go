package main

import (
	"time"

	"sluice/go/internal/store"
	"sluice/go/internal/store/journal"
)

const (
	// fileBytes is the size of the files that the bare disk is tried with: a segment's.
	fileBytes = journal.SegmentBytesMax
	// poolFiles is how many of them are written before, and then over and over again.
	poolFiles = 2
	// growMax is where a file that grows is left for a new one.
	growMax = 1 << 30
	// poolBytes is about how many bytes of frames there are to choose from, as in a lane.
	poolBytes = 8 << 20
	// aheadLeast is what a group holds at the least that somebody else lays out while another is
	// written: to wake him takes longer than to lay out less.
	aheadLeast = 64 << 10
	// keptSegments is how many segments the journal keeps while it is measured alone.
	keptSegments = 2
	// spaceEvery is how often a full store is asked again.
	spaceEvery = 10 * time.Millisecond
	// warmSegments is how many it has gone through before, so that its files are used again.
	warmSegments = 6
	// retentionBytes is the space of a store that is measured; retention works at 75 % of it.
	retentionBytes = 1 << 30
	// leaseMax is how many deliveries are leased at once.
	leaseMax = 256
	// probeEvery is the time between two bare writes beside a long run.
	probeEvery = 50 * time.Millisecond
	// bareLeast is how long the bare disk is tried before and after a long run.
	bareLeast = 5 * time.Second
	// rowMax is how much longer than planned a short row of a set length may take: it has to be
	// prepared, and a server that has stopped is given up.
	rowMax = time.Minute
	// stallMax is how long a subject may make no progress before the run is given up.
	stallMax = 2 * time.Minute
	// insertConnectionsMax is how many connections insert single rows, which the server of
	// scripts/with-postgres has room for.
	insertConnectionsMax = 64
	// numberMax bounds what -sizes and -groups may name.
	numberMax = 1 << 20
	// diskMax is what the whole run may have on the disk at once.
	diskMax = 8 << 30
	// pendingBytesMax is how much of it -pending may take: the journal is not to run full of it.
	pendingBytesMax = diskMax / 4 * 3
)

// The pieces that a large group is cut into.
const (
	journalPiece = journal.GroupBytesMax
	storePiece   = store.BatchBytesMax
)
