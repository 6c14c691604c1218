package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"syscall"

	"sluice/go/internal/store/vfs"
)

// scanner reads one file group by group. Bytes of a group are valid until the next read.
type scanner struct {
	r    vfs.File
	size int64
	buf  []byte
	// unreadable tells that the disk refused a read since it was last cleared. That is no torn
	// group: the bytes may well have been acknowledged.
	unreadable bool
}

// fill reads [off, off+n) as far as the file goes.
func (s *scanner) fill(off, n int64) ([]byte, error) {
	n = min(n, s.size-off)
	if n <= 0 {
		return nil, nil
	}
	if int64(cap(s.buf)) < n {
		s.buf = make([]byte, roundUp(n, 1<<16))
	}
	got, err := s.r.ReadAt(s.buf[:n], off)
	if errors.Is(err, syscall.EIO) {
		// Once more: what is given up as unreadable is in no later table.
		got, err = s.r.ReadAt(s.buf[:n], off)
	}
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return s.buf[:got], nil
	case errors.Is(err, syscall.EIO):
		s.unreadable = true
		return nil, nil
	}
	return nil, fmt.Errorf("read at %d: %w", off, err)
}

// header reads the header at off. legible: the bytes were meant to be one.
func (s *scanner) header(off int64) (h header, legible, valid bool, err error) {
	b, err := s.fill(off, headerBytes)
	if err != nil {
		return h, false, false, err
	}
	h, legible, parseErr := parseHeader(b)
	return h, legible, parseErr == nil, nil
}

// zeroes tells whether [off, off+n) was never written, as far as the file goes.
func (s *scanner) zeroes(off, n int64) (bool, error) {
	b, err := s.fill(off, n)
	for _, c := range b {
		if c != 0 {
			return false, err
		}
	}
	return !s.unreadable, err
}

// group reads the group at off; nil if no valid one is there. An error is not about its bytes.
func (s *scanner) group(off int64) (*parsed, error) {
	h, _, valid, err := s.header(off)
	if err != nil || !valid || off+h.length > s.size {
		return nil, err
	}
	b, err := s.fill(off, h.length)
	if err != nil {
		return nil, err
	}
	p, err := parseGroup(b)
	if errors.Is(err, errNoGroup) {
		return nil, nil
	}
	return p, err
}

// life is one use of a file: only groups with its epoch and number are of it.
type life struct {
	epoch, number uint64
}

func (l life) owns(h *header) bool { return h.epoch == l.epoch && h.segment == l.number }

// next finds the first valid group at or behind off for which want is true, looking at the start
// of every block. It gives -1 when there is none before limit.
func (s *scanner) next(off, limit int64, want func(*header) bool) (int64, *parsed, error) {
	const chunk = 256 * BlockSize
	for ; off < limit; off += chunk {
		starts, err := s.starts(off, min(chunk, limit-off))
		if err != nil {
			return -1, nil, err
		}
		for _, at := range starts {
			p, err := s.group(at)
			if err != nil {
				return -1, nil, err
			}
			if p != nil && want(&p.header) && at+p.length <= limit {
				return at, p, nil
			}
		}
	}
	return -1, nil, nil
}

// starts gives the blocks in [off, off+n) that begin like a group. Where the disk refuses to read
// the stretch, block by block is tried.
func (s *scanner) starts(off, n int64) ([]int64, error) {
	refusedBefore := s.unreadable
	s.unreadable = false
	b, err := s.fill(off, n)
	if err != nil {
		return nil, err
	}
	var list []int64
	if s.unreadable && n > BlockSize {
		for at := off; at < off+n; at += BlockSize {
			some, err := s.starts(at, BlockSize)
			if err != nil {
				return nil, err
			}
			list = append(list, some...)
		}
		return list, nil
	}
	s.unreadable = s.unreadable || refusedBefore
	for at := 0; at+headerBytes <= len(b); at += BlockSize {
		if binary.LittleEndian.Uint64(b[at:]) == groupMagic {
			list = append(list, off+int64(at))
		}
	}
	return list, nil
}

// hole is a stretch of a life without a valid group.
type hole struct {
	from, to    int64
	first, last uint64 // groups that should be there; last 0: unknown
	why         string
}

// walk visits the valid groups of a life in [0, limit), beginning at off and behind group last (0:
// any), and gives the holes before the last of them, and where that ends. What lies behind is the
// caller's to judge.
func (s *scanner) walk(l life, off, limit int64, last uint64,
	visit func(p *parsed, off int64) error) (holes []hole, end int64, err error) {

	want := func(h *header) bool { return l.owns(h) && h.group > last }
	for end = off; off < limit; {
		s.unreadable = false
		p, err := s.group(off)
		if err != nil {
			return holes, end, err
		}
		at := off
		if p == nil || !want(&p.header) || off+p.length > limit {
			at, p, err = s.next(off+BlockSize, limit, want)
			if err != nil {
				return holes, end, err
			}
			if p == nil {
				return holes, end, nil
			}
		}
		if at != off || (last > 0 && p.group != last+1) {
			why := "no valid group"
			if s.unreadable {
				why = "the disk refuses to read"
			}
			holes = append(holes, hole{off, at, last + 1, p.group - 1, why})
		}
		s.unreadable = false
		last = p.group
		off = at + p.length // before visit, which may read on with the same scanner
		end = off
		if err := visit(p, at); err != nil {
			return holes, end, err
		}
	}
	return holes, end, nil
}
