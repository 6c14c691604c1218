package journal

import (
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
)

// Report is what Check found, all that Open would find included.
type Report struct {
	Recovery
	// Bytes of living segments; Groups and Events that are whole, the group in doubt included.
	Bytes          int64
	Groups, Events uint64
	// Lost is how many groups and single frames are damaged; only where a segment's groups are not
	// known is it less than what was lost.
	Lost uint64
}

// Check reads a whole journal, every byte that may still be needed, and changes nothing: what Open
// makes, removes and mends stays as it is. Nobody may write the journal meanwhile; the caller holds
// the lock of the data directory. progress, unless it is nil, is told with each group how many
// bytes are read, and of how many.
func Check(o Options, progress func(read, all int64)) (*Report, error) {
	o.setDefaults()
	o.Log = slog.New(slog.DiscardHandler) // everything is in the report
	info, err := o.FS.Stat(o.Dir)
	if err == nil && !info.Dir {
		err = fmt.Errorf("%s: %w", o.Dir, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("no journal: %w", err)
	}
	j := newJournal(o)
	j.segmentSize = SegmentBytesMin // unused
	j.inspect = true
	found, err := j.recover()
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", o.Dir, err)
	}
	defer j.Close()
	r := &Report{Recovery: *found}
	for _, s := range j.Segments() {
		r.Bytes += s.End
	}
	read := int64(0)
	err = j.Replay(0, func(g *Group) error {
		r.count(g.Frames)
		read += g.size
		if progress != nil {
			progress(read, r.Bytes)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("journal %s: %w", o.Dir, err)
	}
	if j.doubt != nil { // whole, or it would be torn
		r.Groups++
		for _, f := range j.doubt.group.frames {
			if f.Kind() == KindEvent || f.Kind() == KindRescue {
				r.Events++
			}
		}
	}
	r.Segments = j.Segments()
	r.Damage = slices.Clone(j.Damage())
	for _, d := range r.Damage {
		switch {
		case d.Kind == DamageFrame:
			r.Lost++
		case d.LastGroup >= d.FirstGroup && d.FirstGroup > 0:
			r.Lost += d.LastGroup - d.FirstGroup + 1
		}
	}
	return r, nil
}

func (r *Report) count(frames []Frame) {
	r.Groups++
	for _, f := range frames {
		if !f.Damaged && (f.Kind == KindEvent || f.Kind == KindRescue) {
			r.Events++
		}
	}
}
