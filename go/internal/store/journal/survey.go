package journal

import (
	"fmt"

	"sluice/go/internal/event"
	"sluice/shm-abi/shmabi"
)

// survey is all that one life of a file still holds.
type survey struct {
	life
	found  *found
	groups []surveyed
	holes  []hole
	end    int64
	// unreadable: the disk refused to read behind the end.
	unreadable bool
}

// surveyed is what recovery needs of a group once its bytes are gone.
type surveyed struct {
	number      uint64
	off, length int64
	time        int64
	spans       []event.Span
	ended       []event.LaneID
	config      []byte
	events      uint32
	bad         int
}

func (s *survey) lastGroup() uint64 {
	if len(s.groups) == 0 {
		return 0
	}
	return s.groups[len(s.groups)-1].number
}

// cutFrom leaves the groups from a number on out.
func (s *survey) cutFrom(number uint64) {
	for len(s.groups) > 0 && s.lastGroup() >= number {
		s.end = s.groups[len(s.groups)-1].off
		s.groups = s.groups[:len(s.groups)-1]
	}
}

// survey reads a file to its end.
func (r *recovering) survey(f *found, l life) (*survey, error) {
	s := &survey{life: l, found: f}
	var err error
	s.holes, s.end, err = f.scan.walk(l, 0, f.size, 0, func(p *parsed, off int64) error {
		g := surveyed{number: p.group, off: off, length: p.length, time: p.time,
			spans: p.spans, bad: p.checkPayloads()}
		for i, frame := range p.frames {
			if p.bad[i] {
				continue
			}
			switch frame.Kind() {
			case KindEvent, KindRescue:
				g.events++
			case KindConfig:
				g.config = append([]byte(nil), configText(frame)...)
			case KindLaneEnd:
				if len(frame) >= frameHeader+lineSize {
					g.ended = append(g.ended, event.LaneID(frame[frameHeader:frameHeader+16]))
				}
			}
		}
		s.groups = append(s.groups, g)
		return nil
	})
	s.unreadable = f.scan.unreadable
	return s, err
}

// takeSurvey makes a surveyed segment the newest of the list. Of the last one the last group is in
// doubt and not of the list.
func (r *recovering) takeSurvey(s *survey, newest bool) error {
	j := r.j
	if newest {
		if err := r.cutTorn(s); err != nil {
			return err
		}
	}
	for _, h := range s.holes {
		if h.from == 0 && len(r.list) > 0 {
			h.first = max(h.first, r.list[len(r.list)-1].lastGroup+1)
		}
		j.noteDamage(s.found.file, h.damage(s.number))
	}
	// Positions must join. They do, unless groups are missing, which is named already, or the
	// writer was wrong, which nothing here can mend.
	for i, g := range s.groups {
		for _, span := range g.spans {
			if end, ok := j.lanes[span.Lane]; ok && span.From != end && len(s.holes) == 0 {
				j.noteDamage(s.found.file, Damage{Kind: DamageGroups, Segment: s.number,
					Offset: g.off, Length: g.length, FirstGroup: g.number, LastGroup: g.number,
					Detail: fmt.Sprintf("lane %x goes on at %d, was at %d", span.Lane,
						span.From, end)})
			}
			if !newest || i < len(s.groups)-1 {
				j.lanes[span.Lane] = span.To
			}
		}
		for _, lane := range g.ended {
			r.out.Ended[lane] = true
			if !newest || i < len(s.groups)-1 {
				delete(j.lanes, lane)
			}
		}
		if g.config != nil {
			j.setCatalogue(g.config)
		}
	}
	r.last = max(r.last, s.lastGroup())
	sound := s.groups
	if newest {
		if err := r.doubtLast(s); err != nil {
			return err
		}
		sound = s.groups[:len(s.groups)-1]
		r.newest = s.found
	}
	if len(sound) == 0 {
		return nil
	}
	first, last := sound[0], sound[len(sound)-1]
	seg := &segment{
		number: s.number, epoch: s.epoch, file: s.found.file,
		end: last.off + last.length, lastOffset: last.off,
		firstGroup: first.number, lastGroup: last.number,
		firstTime: first.time, lastTime: last.time,
	}
	for _, g := range sound {
		seg.events += g.events
		if g.bad > 0 {
			r.nameBadFrames(s, g)
		}
	}
	s.found.living = true
	r.list = append(r.list, seg)
	return nil
}

// cutTorn takes the last group off if a power cut interrupted it: a part of its payloads is
// missing and nothing follows. A group before it cannot be torn, since this one was begun after
// its sync.
func (r *recovering) cutTorn(s *survey) error {
	n := len(s.groups)
	if n > 1 && s.groups[n-1].bad > 0 && !s.unreadable {
		g := s.groups[n-1]
		s.groups, s.end = s.groups[:n-1], g.off
		r.out.Torn = &Torn{File: s.found.name, Segment: s.number, Offset: g.off, Group: g.number}
		return nil
	}
	if s.unreadable {
		r.j.noteDamage(s.found.file, Damage{Kind: DamageGroups, Segment: s.number,
			Offset: s.end, Length: s.found.size - s.end, FirstGroup: s.lastGroup() + 1,
			Detail: "the disk refuses to read"})
		return nil
	}
	h, legible, _, err := s.found.scan.header(s.end)
	if err == nil && legible && s.owns(&h) {
		r.out.Torn = &Torn{File: s.found.name, Segment: s.number, Offset: s.end, Group: h.group}
	}
	return err
}

// doubtLast keeps the bytes of the last group in memory, to be written again.
func (r *recovering) doubtLast(s *survey) error {
	g := s.groups[len(s.groups)-1]
	buf, err := r.j.pool.get(g.length)
	if err != nil {
		return err
	}
	b := buf.data[:g.length]
	if _, err := s.found.scan.r.ReadAt(b, g.off); err != nil {
		buf.Release()
		return fmt.Errorf("%s: read group %d again: %w", s.found.name, g.number, err)
	}
	p, err := parseGroup(b)
	if err != nil {
		buf.Release()
		return fmt.Errorf("%s: group %d changed between two reads: %w", s.found.name, g.number, err)
	}
	r.j.doubt = &doubt{group: p, buf: buf}
	return nil
}

// nameBadFrames names the frames of a proven group whose payload is not what was written.
func (r *recovering) nameBadFrames(s *survey, g surveyed) {
	p, err := s.found.scan.group(g.off)
	if err != nil || p == nil {
		return // it was valid a moment ago; a read of it will say what is wrong
	}
	p.checkPayloads()
	for i, bad := range p.bad {
		if bad {
			r.j.noteDamage(s.found.file, frameDamage(p, g.off, i))
		}
	}
}

func frameDamage(p *parsed, off int64, i int) Damage {
	f := shmabi.Frame(p.frames[i])
	return Damage{Kind: DamageFrame, Segment: p.segment, Offset: off + p.at[i],
		Length: int64(len(f)), FirstGroup: p.group, LastGroup: p.group,
		Detail: fmt.Sprintf("frame %d, event %d: payload checksum", i,
			event.NewSeq(p.group, i))}
}

// lookForHigher finds valid groups with numbers above the last one in files that no table named.
func (r *recovering) lookForHigher() error {
	for _, f := range r.files {
		if f.living || f == r.newest || !f.valid {
			continue
		}
		for off := int64(0); ; {
			h, _, valid, err := f.scan.header(off)
			if err != nil {
				return err
			}
			if !valid || h.epoch != f.first.epoch {
				break
			}
			if h.group > r.last {
				if p, err := f.scan.group(off); err != nil {
					return err
				} else if p != nil && p.checkPayloads() == 0 {
					r.j.noteDamage(f.file, Damage{Kind: DamageGroups, Segment: h.segment,
						Offset: off, Length: h.length, FirstGroup: h.group, LastGroup: h.group,
						Detail: "a valid group that no table knows"})
				}
			}
			off += h.length
		}
	}
	return nil
}

// askWitness compares the last group with what others remember.
func (r *recovering) askWitness() {
	j, w := r.j, r.j.o.Witness
	highest := w.IndexGroup
	who := "the index"
	if w.SameBoot && w.ShmDurableGroup > highest {
		highest, who = w.ShmDurableGroup, "the control page"
	}
	if highest > r.last {
		var f *file
		if r.newest != nil {
			f = r.newest.file
		}
		j.noteDamage(f, Damage{Kind: DamageTail, FirstGroup: r.last + 1, LastGroup: highest,
			Detail: who + " remembers more than the disk holds"})
	}
	j.nextGroup = max(r.last, highest) + 1
}

// publish moves what was found into the journal.
func (r *recovering) publish() {
	j := r.j
	j.living = r.list
	for _, f := range r.files {
		if !f.living {
			j.unused = append(j.unused, f.file)
		}
	}
	j.durable = r.last
	if j.doubt != nil {
		j.durable = 0
		if n := len(r.list); n > 0 {
			j.durable = r.list[n-1].lastGroup
		}
	}
	j.lastWrite = j.o.Clock()
	r.out.LastGroup = r.last
	r.out.Doubt = j.doubt != nil
	r.out.Catalogue = j.catalogue
	r.out.Damage = j.damage
	r.out.Segments = j.segmentInfos()
	r.out.Lanes = map[event.LaneID]uint64{}
	for lane, to := range j.lanes {
		r.out.Lanes[lane] = to
	}
	if j.doubt != nil {
		for _, span := range j.doubt.group.spans {
			r.out.Lanes[span.Lane] = span.To
		}
		for _, lane := range j.doubt.lanesEnded() {
			delete(r.out.Lanes, lane)
		}
	}
}
