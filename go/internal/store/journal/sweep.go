package journal

import (
	"path"
	"strings"
)

// Prepare makes the next segment's file ahead of time, so that no Append has to, and gives the
// space of files that are not needed any more back. Call it from a goroutine beside the committer:
// after Settle, and after each Append that returned a group of a new segment.
func (j *Journal) Prepare() error {
	j.prepare.Lock()
	defer j.prepare.Unlock()
	j.mu.Lock()
	if err := j.usable(); err != nil {
		j.mu.Unlock()
		return err
	}
	j.mu.Unlock()
	j.sweep()
	j.mu.Lock()
	for _, f := range j.unused {
		// After a refusal a file more is asked for, to learn when there is space again.
		if f.reusable && !f.poisoned && !f.damaged && f.size == j.segmentSize && !j.refused {
			j.mu.Unlock()
			return nil
		}
	}
	j.mu.Unlock()
	f, err := j.tryCreateFile(j.segmentSize)
	j.mu.Lock()
	j.refused = noRoom(err)
	j.mu.Unlock()
	if err != nil {
		return err
	}
	j.setAside(f)
	return nil
}

// sweep removes, sets aside or cuts the files that may be by rule: those that a durable first
// group of this run does not name, and the dead ends of segments that were left early.
func (j *Journal) sweep() {
	remove, keep, cut := j.sweepable()
	for _, f := range remove {
		closeWriter(f)
		if err := j.o.FS.Remove(j.path(f.name)); err != nil {
			j.o.Log.Warn("an unused segment file stays", "file", f.name, "error", err)
			j.setAside(f)
		}
	}
	for _, f := range keep {
		closeWriter(f)
		if err := j.keepForGood(f); err != nil {
			j.o.Log.Warn("a damaged segment file keeps its name", "file", f.name, "error", err)
			j.setAside(f)
		}
	}
	for _, s := range cut {
		if err := j.cutDeadEnd(s); err != nil {
			j.o.Log.Warn("a segment keeps its dead end", "file", s.file.name, "error", err)
		}
		j.unpin(s.file)
	}
}

func (j *Journal) sweepable() (remove, keep []*file, cut []*segment) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var stay []*file
	spares := 0
	for _, f := range j.unused {
		switch {
		case !f.reusable || f.pins > 0:
			stay = append(stay, f)
		case f.damaged:
			j.forgetReader(f)
			keep = append(keep, f)
		case f.poisoned, f.size != j.segmentSize, spares == sparesMax:
			j.forgetReader(f)
			remove = append(remove, f)
		default:
			spares++
			stay = append(stay, f)
		}
	}
	j.unused = stay
	for _, s := range j.living {
		// A segment that is nearly full is worth more whole: its file is used again as it is.
		short := s.end < min(s.file.size, j.segmentSize/2)
		if short && s.named && s != j.current && !s.file.damaged {
			s.file.pins++
			cut = append(cut, s)
		}
	}
	return remove, keep, cut
}

func (j *Journal) keepForGood(f *file) error {
	name := strings.TrimSuffix(f.name, segmentSuffix) + keptSuffix
	if err := j.o.FS.Rename(j.path(f.name), j.path(name)); err != nil {
		return err
	}
	j.o.Log.Warn("a damaged segment file is kept", "file", path.Join(j.o.Dir, name))
	return j.o.FS.SyncDir(j.o.Dir)
}

// cutDeadEnd truncates behind the end that a durable table states; nothing there is ever read
// again.
func (j *Journal) cutDeadEnd(s *segment) error {
	w, err := j.o.FS.Open(j.path(s.file.name), 0)
	if err != nil {
		return err
	}
	defer w.Close()
	if err := w.Truncate(s.end); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	s.file.size = s.end
	return nil
}

// makeRoom removes what may be removed at once when the disk is full: unused files that no table
// can name. It tells whether there was anything.
func (j *Journal) makeRoom() bool {
	j.mu.Lock()
	var blank []*file
	var stay []*file
	for _, f := range j.unused {
		if (f.blank || (f.reusable && !f.damaged)) && f.pins == 0 {
			j.forgetReader(f)
			blank = append(blank, f)
		} else {
			stay = append(stay, f)
		}
	}
	j.unused = stay
	j.mu.Unlock()
	for _, f := range blank {
		closeWriter(f)
		if err := j.o.FS.Remove(j.path(f.name)); err != nil {
			j.o.Log.Warn("an unused segment file stays", "file", f.name, "error", err)
			j.setAside(f)
		}
	}
	return len(blank) > 0
}
