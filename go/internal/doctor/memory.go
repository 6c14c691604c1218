package doctor

import (
	"path/filepath"
	"strconv"
	"strings"
)

const (
	// ringMemory is what one io_uring of full size (4096 and 16384 entries) locks on the account of
	// a user who is not root, and ringMemoryLeast the smallest that the data plane settles for.
	ringMemory      = 2 << 20
	ringMemoryLeast = 64 << 10
	// spareFiles are descriptors beside connections: lanes, segments, destinations, the admin side.
	spareFiles = 1024
	// turnedAway are those of a worker for connections over the bound, which are answered, too.
	turnedAway = 256
	// laneSpare is a lane's header page and reply ring beside its request ring, at most.
	laneSpare = 8 << 20
)

func (h Host) path(name string) string { return filepath.Join(h.Root, name) }

// lanes is the shared memory of one generation of data plane.
func (o Options) lanes() int64 { return int64(o.Workers) * (o.RingSize + laneSpare) }

// lockedMemory judges RLIMIT_MEMLOCK, against which io_uring counts for all but root.
func lockedMemory(h Host, o Options) Finding {
	const name = "memlock"
	const mend = "set LimitMEMLOCK=infinity in the unit, or --ulimit memlock=-1"
	if err := h.Lock(); err != nil {
		return bad(Warn, name, mend, "no memory can be locked (%v): lanes may be swapped out", err)
	}
	_, hard, found := h.limit("Max locked memory")
	switch {
	case h.can(capIPCLock) || hard == -1:
		return good(name, "unlimited")
	case !found:
		return bad(Warn, name, "mount /proc", "the limit is not known")
	case o.Driver == "epoll":
		return good(name, "%s; epoll needs none", bytesText(hard))
	case hard < int64(o.Workers)*ringMemoryLeast:
		level, then := o.withoutRing()
		return bad(level, name, mend, "%s is too little for %d io_urings: %s", bytesText(hard),
			o.Workers, then)
	case hard < int64(o.Workers)*ringMemory:
		return bad(Warn, name, mend, "%s makes %d io_urings smaller than they should be",
			bytesText(hard), o.Workers)
	case hard < o.lanes()+int64(o.Workers)*ringMemory:
		return good(name, "%s is enough for io_uring, too little to lock %s of lanes",
			bytesText(hard), bytesText(o.lanes()))
	}
	return good(name, "%s", bytesText(hard))
}

// locksLanes tells whether the lanes can be kept out of swap by locking them.
func locksLanes(h Host, o Options) bool {
	_, hard, found := h.limit("Max locked memory")
	enough := found && (hard == -1 || hard >= o.lanes()+int64(o.Workers)*ringMemory)
	return (enough || h.can(capIPCLock)) && h.Lock() == nil
}

func openFiles(h Host, o Options) Finding {
	const name = "open files"
	_, hard, found := h.limit("Max open files")
	need := int64(o.MaxConnections) + int64(o.Workers)*turnedAway + spareFiles
	switch {
	case !found:
		return bad(Warn, name, "mount /proc", "the limit is not known")
	case hard != -1 && hard < need:
		level := Warn
		if hard <= spareFiles {
			level = Fail
		}
		return bad(level, name, "set LimitNOFILE="+strconv.FormatInt(need, 10)+
			" in the unit (--ulimit nofile), or lower http.max_connections",
			"%d are too few for %d connections and %d other files", hard, o.MaxConnections,
			need-int64(o.MaxConnections))
	case hard == -1:
		return good(name, "unlimited")
	}
	return good(name, "%d", hard)
}

func sharedMemory(h Host, o Options) Finding {
	const name = "shm_dir"
	folder := h.existing(o.ShmDir)
	s, err := h.Space(folder)
	if err != nil {
		return bad(Fail, name, "name a folder on a tmpfs", "%s: %v", folder, err)
	}
	if s.Kind != "tmpfs" {
		return bad(Fail, name, "name a folder on a tmpfs, such as /dev/shm/sluice",
			"%s is on %s: every request would be written to a disk twice", folder, s.Kind)
	}
	if err := h.Write(folder); err != nil {
		return bad(Fail, name, "make it writable for sluice", "%s: %v", folder, err)
	}
	need, free := o.lanes(), s.Free
	if o.Running {
		free = s.Total
	}
	mend := "mount a larger tmpfs (--shm-size in a container), or lower workers or ring_size"
	switch {
	case free < need:
		return bad(Fail, name, mend, "%s has room for %s; %d lanes need %s", folder, bytesText(free),
			o.Workers, bytesText(need))
	case free < 2*need:
		return bad(Warn, name, mend, "%s has room for %s; an upgrade needs %s, for two generations of "+
			"lanes", folder, bytesText(free), bytesText(2*need))
	}
	return good(name, "%s is a tmpfs with room for %s; the lanes take %s", folder, bytesText(free),
		bytesText(need))
}

// memory holds the lanes against what the host and the container give.
func memory(h Host, o Options) Finding {
	const name = "memory"
	mend := "give more memory, or lower workers or ring_size"
	if limit, found := h.controlGroup("memory.max"); found && limit < 2*o.lanes() {
		level := Warn
		if limit < o.lanes() {
			level = Fail
		}
		return bad(level, name, mend, "the control group gives %s; full lanes take %s, twice that "+
			"while upgrading", bytesText(limit), bytesText(o.lanes()))
	}
	available, found := h.meminfo("MemAvailable:")
	switch {
	case !found:
		return bad(Warn, name, "mount /proc", "the kernel does not say how much is free")
	case available < o.lanes() && !o.Running:
		return bad(Fail, name, mend, "%s are free; full lanes take %s", bytesText(available),
			bytesText(o.lanes()))
	}
	return good(name, "%s are free; full lanes take %s, dedup keys up to %s", bytesText(available),
		bytesText(o.lanes()), bytesText(o.DedupMemory))
}

// Memory is what the host has, or what its control group gives this process where that is less.
func (h Host) Memory() (bytes int64, found bool) {
	h = h.complete()
	bytes, found = h.meminfo("MemTotal:")
	if limit, limited := h.controlGroup("memory.max"); limited && (!found || limit < bytes) {
		return limit, true
	}
	return bytes, found
}

func (h Host) meminfo(name string) (int64, bool) {
	text, _ := h.read("proc/meminfo")
	for line := range strings.Lines(text) {
		if rest, is := strings.CutPrefix(line, name); is {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kb << 10, err == nil
		}
	}
	return 0, false
}

// controlGroup reads a number of this process's own control group, version 2. No limit is not
// found.
func (h Host) controlGroup(file string) (int64, bool) {
	text, _ := h.read("proc/self/cgroup")
	for line := range strings.Lines(text) {
		group, is := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !is {
			continue
		}
		value, found := h.read(filepath.Join("sys/fs/cgroup", group, file))
		if !found {
			// Inside a container the group's own files are at the root of the mount.
			value, _ = h.read(filepath.Join("sys/fs/cgroup", file))
		}
		n, err := strconv.ParseInt(value, 10, 64)
		return n, err == nil
	}
	return 0, false
}

// swap matters because a lane that is swapped out stops a worker for a disk read.
func swap(h Host, o Options) Finding {
	const name = "swap"
	text, found := h.read("proc/swaps")
	limit, limited := h.controlGroup("memory.swap.max")
	switch {
	case !found || strings.Count(text, "\n") == 0:
		return good(name, "off")
	case limited && limit == 0:
		return good(name, "on, but not for this control group")
	case h.mountOptions(o.ShmDir)["noswap"]:
		return good(name, "on, but not for the lanes: their tmpfs is mounted with noswap")
	case locksLanes(h, o):
		return good(name, "on, but the lanes can be locked in memory")
	}
	return bad(Warn, name, "raise LimitMEMLOCK, mount shm_dir's tmpfs with noswap (Linux 6.4), "+
		"or set MemorySwapMax=0", "on: lanes may be swapped out, and a worker then waits for the disk")
}

// mountOptions are those of the mount that a path is on.
func (h Host) mountOptions(path string) map[string]bool {
	text, _ := h.read("proc/self/mounts")
	best, options := "", map[string]bool{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 || len(fields[1]) < len(best) || !under(path, fields[1]) {
			continue
		}
		best, options = fields[1], map[string]bool{}
		for _, option := range strings.Split(fields[3], ",") {
			options[option] = true
		}
	}
	return options
}

func under(path, mount string) bool {
	return path == mount || mount == "/" || strings.HasPrefix(path, mount+"/")
}
