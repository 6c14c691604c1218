package fakeplane

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/shm-abi/shmabi"
)

// variable holds the faults, one rule a word: FAULT, or GENERATION:FAULT.
const variable = "SLUICE_FAKE_PLANE"

// The faults.
const (
	Dies        = "dies"         // ends right after its start
	DiesInApply = "dies-apply"   // ends while it takes a config up
	NeverServes = "never-serves" // lives, and has no socket
	Refuses     = "refuses"      // takes no config
	RefusesNext = "refuses-next" // takes the first config only
	Slow        = "slow"         // takes a config up after a while
	Stubborn    = "stubborn"     // does not end when it is told to
	KeepsFds    = "keeps-fds"    // hands no descriptors over
	Outlives    = "outlives"     // goes on without the process that started it, as the real one does

	// Of the program, whichever generation.
	Mute    = "mute"    // never answers --version
	Foreign = "foreign" // says that it has another layout
)

// lifetime ends a plane that a broken test forgot.
const lifetime = time.Minute

// Env is the environment variable that makes a test binary a data plane.
func Env(faults ...string) (name, value string) {
	return variable, strings.Join(faults, " ")
}

// Main turns this process into a data plane where the environment says so. TestMain calls it first.
func Main() {
	rules, on := os.LookupEnv(variable)
	if !on {
		return
	}
	if len(os.Args) == 2 && os.Args[1] == "--version" {
		sayVersion(strings.Fields(rules))
	}
	p := plane{option: make(map[string]string)}
	for i := 1; i+1 < len(os.Args); i++ {
		p.option[os.Args[i]] = os.Args[i+1]
	}
	for _, rule := range strings.Fields(rules) {
		if generation, fault, ok := strings.Cut(rule, ":"); !ok {
			p.faults = append(p.faults, rule)
		} else if generation == p.option["--generation"] {
			p.faults = append(p.faults, fault)
		}
	}
	if err := p.run(); err != nil {
		fmt.Fprintln(os.Stderr, "fake data plane:", err)
		_ = os.WriteFile(p.path("words"), []byte(err.Error()), 0o600) // a test misses them
		os.Exit(1)
	}
	os.Exit(0)
}

// sayVersion ends the process.
func sayVersion(rules []string) {
	layout := uint64(shmabi.LayoutHash)
	if slices.Contains(rules, Foreign) {
		layout++
	}
	if slices.Contains(rules, Mute) {
		time.Sleep(lifetime)
	}
	fmt.Printf("sluice-dataplane 0.0.0-fake (layout %016x)\n", layout)
	os.Exit(0)
}

// plane is this process as a data plane.
type plane struct {
	option     map[string]string
	faults     []string
	generation uint32
	workers    int
	lanes      []laneFile
	state
}

type laneFile struct {
	id   [16]byte
	file *os.File // has the lock
}

func (p *plane) is(fault string) bool { return slices.Contains(p.faults, fault) }

func (p *plane) path(kind string) string {
	return fmt.Sprintf("%s/dp/%d.%s", p.option["--shm"], p.generation, kind)
}

func (p *plane) run() error {
	generation, err := strconv.ParseUint(p.option["--generation"], 10, 32)
	if err != nil {
		return err
	}
	p.generation = uint32(generation)
	if p.workers, err = strconv.Atoi(p.option["--workers"]); err != nil {
		return err
	}
	go p.watchParent()
	if err := p.makeCounters(); err != nil {
		return err
	}
	if p.is(Dies) {
		return fmt.Errorf("generation %d was told to die", generation)
	}
	for range p.workers {
		l, err := p.makeLane()
		if err != nil {
			return err
		}
		p.lanes = append(p.lanes, l)
	}
	if p.is(NeverServes) {
		select {}
	}
	go p.handOver()
	return p.serve()
}

// watchParent ends a plane that a test left behind.
func (p *plane) watchParent() {
	parent := os.Getppid()
	for until := time.Now().Add(lifetime); time.Now().Before(until); {
		if os.Getppid() != parent && !p.is(Outlives) {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	os.Exit(2)
}

func (p *plane) makeCounters() error {
	page := make([]byte, shmabi.CountersHeaderSize+shmabi.SourcesMax*shmabi.SourceStateSize+
		p.workers*(shmabi.WorkerCountersSize+shmabi.SourcesMax*shmabi.SourceCountersSize+
			shmabi.RefusedEntries*shmabi.RefusedSize))
	le := binary.LittleEndian
	le.PutUint64(page[shmabi.CountersHeaderMagicOffset:], shmabi.CountersMagic)
	le.PutUint64(page[shmabi.CountersHeaderLayoutHashOffset:], shmabi.LayoutHash)
	le.PutUint32(page[shmabi.CountersHeaderGenerationOffset:], p.generation)
	le.PutUint32(page[shmabi.CountersHeaderPidOffset:], uint32(os.Getpid()))
	le.PutUint32(page[shmabi.CountersHeaderWorkersOffset:], uint32(p.workers))
	le.PutUint32(page[shmabi.CountersHeaderSourcesOffset:], shmabi.SourcesMax)
	return os.WriteFile(p.path("counters"), page, 0o600)
}

// makeLane makes an empty lane and keeps its lock, as the real one does.
func (p *plane) makeLane() (laneFile, error) {
	const rings = 64 << 10
	var l laneFile
	if _, err := unix.Getrandom(l.id[:], 0); err != nil {
		return l, err
	}
	path := fmt.Sprintf("%s/lanes/%x", p.option["--shm"], l.id)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return l, err
	}
	l.file = file
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return l, err
	}
	if err := file.Truncate(shmabi.LaneHeaderSize + 2*rings); err != nil {
		return l, err
	}
	boot, err := bytesOf("/proc/sys/kernel/random/boot_id", true)
	if err != nil {
		return l, err
	}
	journal, err := bytesOf(p.option["--journal-id"], false)
	if err != nil {
		return l, err
	}
	page, le := make([]byte, shmabi.LaneHeaderSize), binary.LittleEndian
	le.PutUint64(page[shmabi.LaneHeaderLayoutHashOffset:], shmabi.LayoutHash)
	copy(page[shmabi.LaneHeaderBootIDOffset:], boot)
	copy(page[shmabi.LaneHeaderJournalIDOffset:], journal)
	copy(page[shmabi.LaneHeaderLaneIDOffset:], l.id[:])
	le.PutUint32(page[shmabi.LaneHeaderGenerationOffset:], p.generation)
	le.PutUint32(page[shmabi.LaneHeaderPidOffset:], uint32(os.Getpid()))
	le.PutUint64(page[shmabi.LaneHeaderRequestCapacityOffset:], rings)
	le.PutUint64(page[shmabi.LaneHeaderReplyCapacityOffset:], rings)
	if _, err := file.WriteAt(page[8:], 8); err != nil {
		return l, err
	}
	le.PutUint64(page, shmabi.LaneMagic)
	_, err = file.WriteAt(page[:8], 0)
	return l, err
}

// close marks the lanes as closed.
func (p *plane) close() {
	for _, l := range p.lanes {
		_, _ = l.file.WriteAt([]byte{1}, shmabi.LaneHeaderClosedOffset) // a test sees that it is not
	}
}
