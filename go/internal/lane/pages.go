package lane

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"sluice/shm-abi/shmabi"
)

// Control is the control page: made once per journal, kept over restarts, written by this side
// only.
type Control struct {
	shmabi.ControlPage
	mapped *mapping
	file   *os.File
}

// OpenControl maps the page, making it where there is none. One that another version laid out is
// ErrForeign: a data plane may still read it.
func OpenControl(path string, journal [16]byte) (*Control, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open control page: %w", err)
	}
	// tmpfs gives up at any pending signal, and the runtime sends some.
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.Fallocate(int(file.Fd()), 0, 0, shmabi.ControlPageSize)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("take memory for the control page: %w", err)
	}
	mapped, err := mapParts(file, part{0, shmabi.ControlPageSize, 1})
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	c := &Control{shmabi.ViewControlPage(mapped.bytes(0, shmabi.ControlPageSize)), mapped, file}
	switch {
	case c.Magic() == 0:
		c.StoreLayoutHash(shmabi.LayoutHash)
		c.StoreJournalID(journal)
		c.StoreMagic(shmabi.ControlMagic)
	case c.Magic() != shmabi.ControlMagic || c.LayoutHash() != shmabi.LayoutHash:
		err = fmt.Errorf("control page %s: %w: magic %#x, layout %#x",
			path, ErrForeign, c.Magic(), c.LayoutHash())
	case c.JournalID() != journal:
		err = fmt.Errorf("control page %s: %w: %x", path, ErrOtherJournal, c.JournalID())
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close unmaps the page; the file stays.
func (c *Control) Close() {
	c.mapped.unmap()
	_ = c.file.Close() // written through the mapping only
}

// Counters is the counters file of one data plane, for reading.
type Counters struct {
	shmabi.CountersHeader
	mapped  *mapping
	file    *os.File
	workers int
	sources int
}

// OpenCounters maps the file that a data plane made.
func OpenCounters(path string) (*Counters, error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("open counters: %w", err)
	}
	c, err := mapCounters(file)
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("counters %s: %w", path, err)
	}
	return c, nil
}

func mapCounters(file *os.File) (*Counters, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() < shmabi.CountersHeaderSize {
		return nil, fmt.Errorf("%w: %d bytes", ErrForeign, info.Size())
	}
	mapped, err := mapParts(file, part{0, int(info.Size()), 1})
	if err != nil {
		return nil, err
	}
	c := &Counters{mapped: mapped, file: file}
	c.CountersHeader = shmabi.ViewCountersHeader(mapped.bytes(0, shmabi.CountersHeaderSize))
	c.workers, c.sources = int(c.CountersHeader.Workers()), int(c.CountersHeader.Sources())
	need := c.refusedAt(c.workers)
	magic, layout := c.Magic(), c.LayoutHash()
	if magic != shmabi.CountersMagic || layout != shmabi.LayoutHash ||
		c.workers > shmabi.WorkersMax || c.sources > shmabi.SourcesMax || need > mapped.length {
		mapped.unmap()
		return nil, fmt.Errorf("%w: magic %#x, layout %#x, %d bytes of %d", ErrForeign, magic, layout,
			mapped.length, need)
	}
	return c, nil
}

// WorkerCount is the number of workers; each has its own words.
func (c *Counters) WorkerCount() int { return c.workers }

// SourceCount is the number of source slots of each worker.
func (c *Counters) SourceCount() int { return c.sources }

// Worker is one worker's words.
func (c *Counters) Worker(i int) shmabi.WorkerCounters {
	at := shmabi.CountersHeaderSize + i*shmabi.WorkerCountersSize
	return shmabi.ViewWorkerCounters(c.mapped.bytes(at, shmabi.WorkerCountersSize))
}

// Source is one worker's words for one source slot.
func (c *Counters) Source(worker, slot int) shmabi.SourceCounters {
	at := shmabi.CountersHeaderSize + c.workers*shmabi.WorkerCountersSize +
		(worker*c.sources+slot)*shmabi.SourceCountersSize
	return shmabi.ViewSourceCounters(c.mapped.bytes(at, shmabi.SourceCountersSize))
}

// State is the words of a source slot, of all workers.
func (c *Counters) State(slot int) shmabi.SourceState {
	at := c.statesAt() + slot*shmabi.SourceStateSize
	return shmabi.ViewSourceState(c.mapped.bytes(at, shmabi.SourceStateSize))
}

// Refused calls each with the entries of a worker's ring of refusals from number `from` on, and
// returns the number of the next one. Entries that were written over are skipped; lost is how many.
func (c *Counters) Refused(worker int, from uint64, each func(shmabi.Refused)) (
	next, lost uint64,
) {
	words := c.Worker(worker)
	next = words.RefusedEntries()
	if next < from { // not our data plane's count
		return next, 0
	}
	if oldest := next - min(next, shmabi.RefusedEntries); from < oldest {
		lost, from = oldest-from, oldest
	}
	var entry [shmabi.RefusedSize]byte
	for ; from < next; from++ {
		at := c.refusedAt(worker) + int(from%shmabi.RefusedEntries)*shmabi.RefusedSize
		copy(entry[:], c.mapped.bytes(at, shmabi.RefusedSize))
		// The entry that is being written now may lie in the same place.
		if words.RefusedEntries() >= from+shmabi.RefusedEntries {
			lost++
			continue
		}
		each(shmabi.Refused(entry[:]))
	}
	return next, lost
}

func (c *Counters) statesAt() int {
	return shmabi.CountersHeaderSize + c.workers*shmabi.WorkerCountersSize +
		c.workers*c.sources*shmabi.SourceCountersSize
}

// refusedAt is where a worker's ring of refusals begins; that of the worker after the last: the
// end.
func (c *Counters) refusedAt(worker int) int {
	return c.statesAt() + c.sources*shmabi.SourceStateSize +
		worker*shmabi.RefusedEntries*shmabi.RefusedSize
}

// Close unmaps the file.
func (c *Counters) Close() {
	c.mapped.unmap()
	_ = c.file.Close() // only read
}

// BootID is the kernel's name for this boot.
func BootID() ([16]byte, error) {
	var id [16]byte
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return id, fmt.Errorf("read the boot id: %w", err)
	}
	digits := strings.ReplaceAll(strings.TrimSpace(string(text)), "-", "")
	raw, err := hex.DecodeString(digits)
	if err != nil || len(raw) != len(id) {
		return id, fmt.Errorf("read the boot id: %q is no UUID", digits)
	}
	return [16]byte(raw), nil
}
