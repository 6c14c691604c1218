package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"sluice/go/internal/event"
	"sluice/go/internal/store/vfs"
)

// found is a segment file as the start sees it.
type found struct {
	*file
	scan    scanner
	first   header
	table   *table
	legible bool // the first block was meant to begin a group
	valid   bool // and its checksum passes
	whole   bool // and the payloads of its frames do
}

// recovering is the state of Open.
type recovering struct {
	j      *Journal
	out    *Recovery
	files  []*found
	byID   map[uint64]*found
	newest *found
	list   []*segment // living segments, oldest first
	last   uint64     // last group of all
}

// recover finds out what the directory holds. It changes nothing but the JOURNAL file, if that is
// missing, and removes what only a run that is over had a use for; for a Check, not even that.
func (j *Journal) recover() (*Recovery, error) {
	r := &recovering{j: j, out: &Recovery{Ended: map[event.LaneID]bool{}},
		byID: map[uint64]*found{}}
	defer r.closeScans()
	id, err := j.readIdentity()
	named := err == nil
	if err != nil && !errors.Is(err, errNoIdentity) {
		return nil, err
	}
	identityErr := err
	j.id = id
	if err := r.findFiles(); err != nil {
		return nil, err
	}
	if err := r.settleIdentity(named, identityErr); err != nil {
		return nil, err
	}
	if !j.inspect {
		buf, err := j.pool.get(BlockSize)
		if err != nil {
			return nil, err
		}
		clear(buf.data)
		j.direct = j.probeDirect(buf.data[:BlockSize])
		buf.Release()
	}
	if err := r.choose(); err != nil {
		return nil, err
	}
	if err := r.lookForHigher(); err != nil {
		return nil, err
	}
	r.askWitness()
	r.publish()
	return r.out, nil
}

func (r *recovering) closeScans() {
	for _, f := range r.files {
		f.scan.r.Close() // only read through
	}
}

// findFiles sorts the names of the directory and reads the first group of every segment file.
func (r *recovering) findFiles() error {
	j := r.j
	names, err := j.o.FS.List(j.o.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		id, ok := parseFileName(name)
		switch {
		case ok:
			j.nextFile = max(j.nextFile, id+1)
			if info, err := j.o.FS.Stat(j.path(name)); err == nil && info.Dir {
				r.out.Foreign = append(r.out.Foreign, name) // whoever put it there
				continue
			}
			f, err := r.look(id, name)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			r.files = append(r.files, f)
		case name == identityName:
		case (name == identityTemp || name == probeName) && j.inspect:
		case name == identityTemp, name == probeName:
			if err := j.o.FS.Remove(j.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		case strings.HasSuffix(name, keptSuffix):
			r.out.Kept = append(r.out.Kept, name)
			id, _ := parseFileName(strings.TrimSuffix(name, keptSuffix) + segmentSuffix)
			j.nextFile = max(j.nextFile, id+1)
		default:
			r.out.Foreign = append(r.out.Foreign, name)
		}
	}
	return nil
}

func (r *recovering) look(id uint64, name string) (*found, error) {
	reader, err := r.j.o.FS.Open(r.j.path(name), vfs.ReadOnly)
	if err != nil {
		return nil, err
	}
	f := &found{file: &file{id: id, name: name}}
	if f.size, err = reader.Size(); err != nil {
		reader.Close()
		return nil, err
	}
	f.scan = scanner{r: reader, size: f.size}
	if err := f.readFirst(); err != nil {
		reader.Close()
		return nil, err
	}
	return f, nil
}

func (f *found) readFirst() error {
	h, legible, _, err := f.scan.header(0)
	if err != nil {
		return err
	}
	f.first, f.legible = h, legible
	if f.blank, err = f.scan.zeroes(0, BlockSize); err != nil {
		return err
	}
	p, err := f.scan.group(0)
	if err != nil || p == nil || p.flags&flagFirst == 0 {
		return err
	}
	f.first, f.table = p.header, p.table
	f.valid = true
	f.whole = p.checkPayloads() == 0
	return nil
}

// settleIdentity agrees on the journal's id, takes files of other journals out, and makes the
// JOURNAL file if it is missing.
func (r *recovering) settleIdentity(named bool, cause error) error {
	j := r.j
	if !named {
		var best *found
		for _, f := range r.files {
			if f.valid && (best == nil || f.first.segment > best.first.segment) {
				best = f
			}
		}
		if best != nil {
			j.id = best.first.journal
		} else {
			j.o.Random(j.id[:])
		}
	}
	ours := 0
	foreign := 0
	r.files = slices.DeleteFunc(r.files, func(f *found) bool {
		if f.valid && f.first.journal != j.id {
			r.out.Foreign = append(r.out.Foreign, f.name)
			f.scan.r.Close()
			foreign++
			return true
		}
		if f.valid {
			ours++
		}
		if f.legible && f.first.segment < segmentMax {
			// Legible is enough: a header that a later power cut takes back must not share its
			// number with a segment of ours.
			j.nextSegment = max(j.nextSegment, f.first.segment+1)
		}
		r.byID[f.id] = f
		return false
	})
	r.out.JournalID = j.id
	if named {
		if foreign > 0 && ours == 0 {
			return fmt.Errorf("%w: %s names %x", ErrForeign, identityName, j.id)
		}
		if j.inspect {
			return nil
		}
		// The run that made the file may have died before its name was durable.
		return j.o.FS.SyncDir(j.o.Dir)
	}
	r.out.Created = len(r.files) == 0 && errors.Is(cause, fs.ErrNotExist)
	if !r.out.Created {
		j.noteDamage(nil, Damage{Kind: DamageIdentity, File: identityName,
			Detail: fmt.Sprintf("%v; made again as %x", cause, j.id)})
	}
	if j.inspect {
		return nil
	}
	return j.writeIdentity()
}

// choose finds the newest segment, the list of living ones, and the group in doubt.
func (r *recovering) choose() error {
	candidates := slices.Clone(r.files)
	candidates = slices.DeleteFunc(candidates, func(f *found) bool { return !f.valid })
	slices.SortStableFunc(candidates, func(a, b *found) int {
		return cmp.Compare(b.first.segment, a.first.segment)
	})
	var base *survey
	for _, f := range candidates {
		if base != nil && f.first.segment == base.number {
			if err := r.duplicate(base, f); err != nil {
				return err
			}
			continue
		}
		if base != nil {
			break
		}
		s, err := r.survey(f, life{f.first.epoch, f.first.segment})
		if err != nil {
			return err
		}
		if len(s.groups) == 1 && s.groups[0].bad > 0 {
			// The first group was under way when the power went: the segment never began.
			r.tornAt(f, 0, s.groups[0].number)
			continue
		}
		base = s
	}
	surveys, err := r.salvage(base)
	if err != nil {
		return err
	}
	if base != nil {
		if err := r.takeTable(base); err != nil {
			return err
		}
		surveys = append([]*survey{base}, surveys...)
	}
	if len(surveys) == 0 {
		return nil
	}
	for i, s := range surveys {
		if i < len(surveys)-1 {
			// A poisoned last group lives on as the first one of the next segment.
			s.cutFrom(surveys[i+1].groups[0].number)
		}
		if err := r.takeSurvey(s, i == len(surveys)-1); err != nil {
			return err
		}
	}
	return r.findCatalogue()
}

// duplicate names two files that claim one number. The one that went further wins, or the younger.
func (r *recovering) duplicate(base *survey, f *found) error {
	s, err := r.survey(f, life{f.first.epoch, f.first.segment})
	if err != nil {
		return err
	}
	if len(s.groups) == 1 && s.groups[0].bad > 0 {
		return nil
	}
	if later := cmp.Or(cmp.Compare(s.lastGroup(), base.lastGroup()),
		cmp.Compare(f.first.time, base.found.first.time)); later > 0 {
		*base, *s = *s, *base
	}
	r.j.noteDamage(s.found.file, Damage{Kind: DamageDuplicate, Segment: s.number,
		FirstGroup: s.groups[0].number, LastGroup: s.lastGroup(),
		Detail: fmt.Sprintf("%s has the same number and is believed", base.found.name)})
	base.found.damaged = true
	return nil
}

// salvage finds segments that were opened after the base and lost their first group, and with it
// their table; what else they hold was acknowledged.
func (r *recovering) salvage(base *survey) ([]*survey, error) {
	above := uint64(0)
	if base != nil {
		above = base.number
	}
	var list []*survey
	for _, f := range r.files {
		if f.valid {
			continue
		}
		var best header
		for off := int64(BlockSize); ; {
			at, p, err := f.scan.next(off, f.size, func(h *header) bool {
				return h.segment > max(above, best.segment) && h.journal == r.j.id
			})
			if err != nil {
				return nil, err
			}
			if p == nil {
				break
			}
			best, off = p.header, at+p.length
		}
		if best.segment == 0 {
			continue
		}
		s, err := r.survey(f, life{best.epoch, best.segment})
		if err != nil {
			return nil, err
		}
		r.j.nextSegment = max(r.j.nextSegment, best.segment+1)
		if len(s.groups) == 1 && s.groups[0].bad > 0 {
			r.j.noteDamage(f.file, s.holes[0].damage(s.number)) // and this one is torn
			continue
		}
		list = append(list, s)
	}
	slices.SortStableFunc(list, func(a, b *survey) int { return cmp.Compare(a.number, b.number) })
	return list, nil
}

// takeTable makes the base's table the list, and checks that every segment is what it says.
func (r *recovering) takeTable(base *survey) error {
	for _, l := range base.found.table.lanes {
		r.j.lanes[l.lane] = l.to
	}
	for _, e := range base.found.table.segments {
		s := &segment{
			number: e.number, epoch: e.epoch, end: e.end, lastOffset: e.lastOffset,
			firstGroup: e.firstGroup, lastGroup: e.lastGroup,
			firstTime: e.firstTime, lastTime: e.lastTime, events: e.events,
		}
		f, err := r.verify(e)
		if err != nil {
			return err
		}
		if f == nil {
			continue
		}
		f.damaged = f.damaged || e.damaged
		f.living, f.blank = true, false
		s.file = f.file
		r.list = append(r.list, s)
		r.last = max(r.last, e.lastGroup)
	}
	return nil
}

// verify finds the file of a table entry. The first group and the header of the last are checked,
// which proves that the file is the right one and whole; rot between is found when it is read.
func (r *recovering) verify(e entry) (*found, error) {
	l := life{e.epoch, e.number}
	f := r.byID[e.file]
	if f == nil || !f.valid || !l.owns(&f.first) {
		for _, other := range r.files {
			if other.valid && l.owns(&other.first) {
				f = other
			}
		}
	}
	whole := Damage{Kind: DamageSegment, Segment: e.number, Length: e.end,
		FirstGroup: e.firstGroup, LastGroup: e.lastGroup}
	if f == nil {
		whole.Detail = "the file is missing"
		r.j.noteDamage(nil, whole)
		return nil, nil
	}
	last, _, legible, err := f.scan.header(e.lastOffset)
	if err != nil {
		return nil, err
	}
	if f.valid && l.owns(&f.first) && legible && l.owns(&last) && last.group == e.lastGroup &&
		e.lastOffset+last.length == e.end && e.end <= f.size {
		return f, nil
	}
	sound := e.firstGroup - 1
	holes, end, err := f.scan.walk(l, 0, min(e.end, f.size), sound,
		func(p *parsed, _ int64) error { sound = p.group; return nil })
	if err != nil {
		return nil, err
	}
	if sound < e.firstGroup {
		whole.Detail = "nothing of it is valid"
		r.j.noteDamage(f.file, whole)
		return nil, nil
	}
	if end < e.end {
		holes = append(holes, hole{end, e.end, sound + 1, e.lastGroup, "no valid group"})
	}
	for _, h := range holes {
		r.j.noteDamage(f.file, h.damage(e.number))
	}
	return f, nil
}

func (h hole) damage(segment uint64) Damage {
	return Damage{Kind: DamageGroups, Segment: segment, Offset: h.from, Length: h.to - h.from,
		FirstGroup: h.first, LastGroup: h.last, Detail: h.why}
}

func (r *recovering) tornAt(f *found, off int64, group uint64) {
	r.out.Torn = &Torn{File: f.name, Segment: f.first.segment, Offset: off, Group: group}
}

// findCatalogue looks through older segments if damage has taken the newest catalogue.
func (r *recovering) findCatalogue() error {
	for i := len(r.list) - 1; i >= 0 && r.j.catalogue == nil && len(r.j.damage) > 0; i-- {
		s := r.list[i]
		f := r.byID[s.file.id]
		var config []byte
		_, _, err := f.scan.walk(life{s.epoch, s.number}, 0, min(s.end, f.size), 0,
			func(p *parsed, _ int64) error {
				for _, frame := range p.frames {
					if frame.Kind() == KindConfig && frame.CheckCRC() == nil {
						config = append([]byte(nil), configText(frame)...)
					}
				}
				return nil
			})
		if err != nil {
			return err
		}
		if config != nil {
			r.j.setCatalogue(config)
		}
	}
	return nil
}
