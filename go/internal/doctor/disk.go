package doctor

import "slices"

const (
	// spaceLeast is two segments of the journal and what the index needs to start.
	spaceLeast = 192 << 20
	// spaceEasy is where a day without a destination is no trouble at a small load.
	spaceEasy = 1 << 30
)

// Kinds of file systems on which a sync says less than it should.
var (
	memoryKinds = []string{"tmpfs", "ramfs"}
	remoteKinds = []string{"nfs", "cifs", "smb", "fuse", "9p"}
)

func dataDir(h Host, o Options) []Finding {
	const name = "data_dir"
	folder := h.existing(o.DataDir)
	s, err := h.Space(folder)
	if err != nil {
		return []Finding{bad(Fail, name, "name a folder on a disk", "%s: %v", folder, err)}
	}
	if err := h.Write(folder); err != nil {
		return []Finding{bad(Fail, name, "make it writable for sluice", "%s: %v", folder, err)}
	}
	return []Finding{fileSystem(folder, s), freeSpace(folder, s, o), direct(h, folder)}
}

func fileSystem(folder string, s Space) Finding {
	const name = "data_dir"
	switch {
	case slices.Contains(memoryKinds, s.Kind):
		return bad(Fail, name, "name a folder on a disk",
			"%s is on %s: no event would survive a power loss", folder, s.Kind)
	case slices.Contains(remoteKinds, s.Kind):
		return bad(Warn, name, "name a folder on a local disk",
			"%s is on %s: what a sync promises there is the other side's affair", folder, s.Kind)
	case s.Kind == "overlay":
		return bad(Warn, name, "mount a volume there",
			"%s is inside the container: it goes away with it", folder)
	}
	return good(name, "%s is writable, on %s", folder, s.Kind)
}

func freeSpace(folder string, s Space, o Options) Finding {
	const name = "data space"
	free := s.Free
	if o.Running {
		// What the journal holds already is space that it has.
		free = s.Total
	}
	switch {
	case free < spaceLeast:
		return bad(Fail, name, "make room: at least 256 MiB", "%s has %s free", folder, bytesText(free))
	case free < spaceEasy:
		return bad(Warn, name, "give it more, for the time when a destination is away",
			"%s has %s free", folder, bytesText(free))
	}
	return good(name, "%s free of %s", bytesText(s.Free), bytesText(s.Total))
}

func direct(h Host, folder string) Finding {
	if err := h.Direct(folder); err != nil {
		return good("direct io", "not here (%v): the journal goes through the page cache", err)
	}
	return good("direct io", "works")
}
