package journal

import (
	"errors"
	"fmt"
	"syscall"
)

// Space is how much room the journal has.
type Space struct {
	SegmentSize int64
	Total       int64 // MaxBytes, or what the file system could give
	Used        int64 // living segments, the current one up to its end
	// Free counts the file system's free bytes (within Total) and the files ready for use.
	Free    int64
	Waiting int64 // files of dropped segments that Reclaim would free
}

// noRoom tells that the disk has no space for a file, or none that this user may have. What statfs
// says need not agree: it knows no quota.
func noRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) ||
		errors.Is(err, syscall.EFBIG)
}

// Floor is the Free below which intake must stop: two segments, and one outcome for each living
// delivery, which will still be written. A constant would be eaten by the outcomes.
func (s Space) Floor(livingDeliveries int64) int64 {
	return 2*s.SegmentSize + OutcomeBytes*livingDeliveries
}

// Full tells whether intake must stop: under the floor, or more than 90 % of the space in use.
func (s Space) Full(livingDeliveries int64) bool {
	return s.Free < s.Floor(livingDeliveries) || s.Used > s.Total/10*9
}

// Space asks the file system and counts.
func (j *Journal) Space() (Space, error) {
	disk, err := j.o.FS.Space(j.o.Dir)
	if err != nil {
		return Space{}, fmt.Errorf("space of %s: %w", j.o.Dir, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	s := Space{SegmentSize: j.segmentSize}
	if j.refused {
		disk.Free = 0
	}
	var taken, ready int64
	for _, g := range j.living {
		taken += g.file.size
		s.Used += g.file.size
		if g == j.current {
			s.Used -= g.file.size - g.end
		}
	}
	for _, f := range j.unused {
		switch {
		case f.reusable && !f.damaged:
			ready += f.size
		case !f.damaged:
			s.Waiting += f.size
			taken += f.size
		default:
			taken += f.size
		}
	}
	s.Total = taken + ready + disk.Free
	if j.o.MaxBytes > 0 {
		s.Total = min(s.Total, j.o.MaxBytes)
	}
	s.Free = max(0, s.Total-taken)
	return s, nil
}
