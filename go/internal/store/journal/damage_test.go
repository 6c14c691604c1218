package journal

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sluice/go/internal/event"
	"sluice/go/internal/store/vfs"
)

// image is a journal of a few segments as files, and what is in it.
type image struct {
	files  map[string][]byte
	groups map[uint64][]uint64 // tags by group
	spot   map[uint64]string   // name of the file that a group lies in
	last   uint64
	config string
}

// makeImage writes a journal of several segments with several groups each, of all kinds of frames.
func makeImage(t testing.TB) *image {
	fs, clock := vfs.NewMem(), newClock()
	o := options(fs, clock, 5)
	o.SegmentSize = 20 << 10
	j, _ := settled(t, o)
	m := &image{files: map[string][]byte{}, groups: map[uint64][]uint64{},
		spot: map[uint64]string{}, config: `{"config_version":4}`}
	for tag := uint64(1); tag <= 24; tag += 2 {
		b := tagBatch(t, tag, tag+1)
		if tag == 1 {
			b.Config = []byte(m.config)
		}
		if tag%3 == 0 {
			b.Outcomes = []event.Outcome{{Seq: 1, Kind: event.Done, Err: "none"}}
		}
		g, err := j.Append(b)
		if err != nil {
			t.Fatal(err)
		}
		m.groups[g.Number] = []uint64{tag, tag + 1}
		s := j.Segments()
		m.spot[g.Number] = s[len(s)-1].File
		m.last = g.Number
		g.Release()
	}
	if len(j.Segments()) < 3 {
		t.Fatalf("only %d segments", len(j.Segments()))
	}
	for _, name := range fs.Names(dir) {
		m.files[path.Base(name)] = fs.Dump(name)
	}
	return m
}

// load opens the journal from the image's files.
func (m *image) load(files map[string][]byte, w Witness) (*Journal, *Recovery, error) {
	fs := vfs.NewMem()
	for name, b := range files {
		fs.Put(dir+"/"+name, b)
	}
	o := options(fs, newClock(), 6)
	o.SegmentSize = 20 << 10
	o.Witness = w
	return Open(o)
}

// survivors opens a damaged image, settles it, and gives the groups whose events are all there,
// and the number of those that miss some.
func (m *image) survivors(t testing.TB, files map[string][]byte) (whole, broken int, j *Journal) {
	t.Helper()
	j, r, err := m.load(files, Witness{IndexGroup: m.last})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer abandon(j) // not at the end of the test: there are tens of thousands
	if err := j.Settle(); err != nil {
		t.Fatalf("settle: %v", err)
	}
	got := map[uint64][]uint64{}
	if err := j.Replay(0, func(g *Group) error {
		for _, f := range g.Frames {
			if f.Kind == KindEvent && !f.Damaged {
				got[g.Number] = append(got[g.Number], tagOf(f.Bytes))
			}
		}
		return nil
	}); err != nil {
		t.Fatalf("replay: %v", err)
	}
	for number, tags := range m.groups {
		if slices.Equal(got[number], tags) {
			whole++
			continue
		}
		for _, tag := range got[number] {
			if !slices.Contains(tags, tag) {
				t.Fatalf("group %d has frame %d, which was never in it", number, tag)
			}
		}
		broken++
	}
	if broken > 0 && len(j.Damage()) == 0 {
		t.Fatalf("%d groups are broken and nothing is reported", broken)
	}
	for number := range got {
		if m.groups[number] == nil {
			t.Fatalf("group %d was never written", number)
		}
	}
	if string(r.Catalogue) != m.config && broken == 0 {
		t.Fatalf("catalogue %q", r.Catalogue)
	}
	g, err := j.Append(tagBatch(t, 1000))
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	g.Release()
	return whole, broken, j
}

func damaged(files map[string][]byte, name string, change func(b []byte) []byte) map[string][]byte {
	next := maps.Clone(files)
	next[name] = change(slices.Clone(next[name]))
	return next
}

func Test_a_flipped_byte_costs_one_group_and_is_reported(t *testing.T) {
	m := makeImage(t)
	stride := 211
	if soak() {
		stride = 1
	}
	rng := newRand(t, 1)
	flips := 0
	for name, b := range m.files {
		for at := rng.IntN(stride); at < len(b); at += 1 + rng.IntN(2*stride-1) {
			flip := byte(1) << rng.IntN(8)
			files := damaged(m.files, name, func(b []byte) []byte { b[at] ^= flip; return b })
			_, broken, j := m.survivors(t, files)
			flips++
			if broken > 1 {
				t.Fatalf("byte %d of %s: %d groups are gone: %v", at, name, broken, j.Damage())
			}
		}
	}
	t.Logf("%d flips", flips)
}

func Test_headers_flipped_bit_by_bit_cost_one_group(t *testing.T) {
	m := makeImage(t)
	for name, b := range m.files {
		for at := 0; at < len(b) && name != identityName; at += BlockSize {
			for bit := range headerBytes * 8 {
				if !soak() && bit%7 != 0 {
					continue
				}
				files := damaged(m.files, name, func(b []byte) []byte {
					b[at+bit/8] ^= 1 << (bit % 8)
					return b
				})
				if _, broken, j := m.survivors(t, files); broken > 1 {
					t.Fatalf("bit %d at %d of %s: %d groups are gone: %v", bit, at, name, broken,
						j.Damage())
				}
			}
		}
	}
}

func Test_a_truncated_file_costs_what_was_cut_and_is_reported(t *testing.T) {
	m := makeImage(t)
	stride := 509
	if soak() {
		stride = 1
	}
	for name, b := range m.files {
		if name == identityName {
			continue
		}
		for size := 0; size < len(b); size += stride {
			files := damaged(m.files, name, func(b []byte) []byte { return b[:size] })
			_, broken, j := m.survivors(t, files)
			inFile := 0
			for _, file := range m.spot {
				if file == name {
					inFile++
				}
			}
			if broken > inFile {
				t.Fatalf("%s cut to %d: %d groups of %d are gone: %v", name, size, broken, inFile,
					j.Damage())
			}
		}
	}
}

func Test_any_file_may_be_missing(t *testing.T) {
	m := makeImage(t)
	for name := range m.files {
		files := maps.Clone(m.files)
		delete(files, name)
		_, broken, j := m.survivors(t, files)
		inFile := 0
		for _, file := range m.spot {
			if file == name {
				inFile++
			}
		}
		if broken != inFile || len(j.Damage()) == 0 {
			t.Fatalf("without %s: %d groups of %d are gone: %v", name, broken, inFile, j.Damage())
		}
	}
}

func Test_a_lost_JOURNAL_file_is_damage_and_not_a_new_journal(t *testing.T) {
	m := makeImage(t)
	_, whole, err := m.load(m.files, Witness{})
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(b []byte) []byte{
		func(b []byte) []byte { return nil },
		func(b []byte) []byte { b[30] ^= 1; return b },
	} {
		_, r, err := m.load(damaged(m.files, identityName, change), Witness{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Created || r.JournalID != whole.JournalID || len(r.Damage) != 1 ||
			r.Damage[0].Kind != DamageIdentity {
			t.Fatalf("recovery %+v", r)
		}
	}
}

func Test_a_cut_tail_with_a_witness_is_reported(t *testing.T) {
	m := makeImage(t)
	last := m.spot[m.last]
	var file *Torn
	for name, w := range map[string]Witness{
		"index": {IndexGroup: m.last}, "same boot": {ShmDurableGroup: m.last, SameBoot: true},
	} {
		// Cut the last group off by zeroes: to the disk it looks as if it had never been written.
		j, r, err := m.load(m.files, Witness{})
		if err != nil {
			t.Fatal(err)
		}
		off := int64(0)
		for _, s := range j.living {
			if s.file.name == last {
				off = s.end
			}
		}
		file = r.Torn
		files := damaged(m.files, last, func(b []byte) []byte { clear(b[off:]); return b })
		j, r, err = m.load(files, w)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Damage) != 1 || r.Damage[0].Kind != DamageTail ||
			r.Damage[0].FirstGroup != m.last || r.Damage[0].LastGroup != m.last {
			t.Fatalf("%s: %v", name, r.Damage)
		}
		// Numbers go on above the witness, in a segment of their own.
		if err := j.Settle(); err != nil {
			t.Fatal(err)
		}
		g := appendTags(t, j, 1000)
		if g.Number != m.last+1 {
			t.Fatalf("%s: next group is %d, witness %d", name, g.Number, m.last)
		}
		if s := j.Segments(); s[len(s)-1].FirstGroup != g.Number {
			t.Fatalf("%s: a gap inside segment %+v", name, s[len(s)-1])
		}
		// Another boot's word means nothing.
		_, r, err = m.load(files, Witness{ShmDurableGroup: m.last})
		if err != nil || len(r.Damage) != 0 {
			t.Fatalf("word of another boot: %v, %v", r.Damage, err)
		}
	}
	if file != nil {
		t.Fatalf("a whole journal reports a torn group: %+v", file)
	}
}

func Test_a_torn_group_is_no_alarm(t *testing.T) {
	torn := 0
	for seed := range uint64(60) {
		b := newBench(t)
		j := b.startSettled()
		appendTags(t, j, 1)
		big := tagBatch(t, 2, 3, 4)
		for i := range big.Frames {
			big.Frames[i] = eventFrame(t, uint64(2+i), 6000)
		}
		b.mem.HaltAt(b.mem.Steps() + beforeSync)
		if _, err := j.Append(big); !isHalted(err) {
			t.Fatal(err)
		}
		b.power(seed)
		j, r := b.start()
		if len(r.Damage) != 0 {
			t.Fatalf("seed %d: %v", seed, r.Damage)
		}
		if r.Torn != nil {
			torn++
			if r.Torn.Group != 2 {
				t.Fatalf("torn: %+v", r.Torn)
			}
		}
		if err := j.Settle(); err != nil {
			t.Fatal(err)
		}
		if tags := tagsIn(t, j); len(tags) != 1 && len(tags) != 4 {
			t.Fatalf("seed %d: a part of a group: %v", seed, tags)
		}
	}
	if torn < 10 {
		t.Fatalf("only %d of 60 cuts tore the group: this test shows nothing", torn)
	}
}

func Test_an_idle_mark_makes_a_lost_tail_damage(t *testing.T) {
	b := newBench(t)
	j := b.startSettled()
	appendTags(t, j, 1)
	g := appendTags(t, j, 2)
	b.clock.now = b.clock.now.Add(IdleAfter)
	if wrote, err := j.Idle(); !wrote || err != nil {
		t.Fatal(wrote, err)
	}
	name := dir + "/" + j.Segments()[0].File
	raw := b.mem.Dump(name)
	raw[g.Frames[0].Loc.Offset-headerBytes+40] ^= 1 // in the head of the group
	b.mem = b.mem.Kill(nil)
	b.mem.Put(name, raw)
	_, r := b.start()
	if len(r.Damage) != 1 || r.Damage[0].Kind != DamageGroups || r.Damage[0].FirstGroup != 2 {
		t.Fatalf("%v", r.Damage)
	}
}

func Test_a_damaged_file_is_kept_for_good(t *testing.T) {
	b := newBench(t)
	j := b.startSettled()
	var g *Group
	for tag := range uint64(40) {
		if one := appendTags(t, j, 1+tag); tag == 3 {
			g = one
		}
	}
	name := dir + "/" + j.Segments()[0].File
	raw := b.mem.Dump(name)
	raw[g.Frames[0].Loc.Offset+frameHeader+20] ^= 1
	b.mem = b.mem.Kill(nil)
	b.mem.Put(name, raw)
	j = b.startSettled() // an old segment is looked at when it is read
	got := tagsIn(t, j)
	if len(got) != 39 || slices.Contains(got, 4) {
		t.Fatalf("replay gives %v", got)
	}
	if d := j.Damage(); len(d) != 1 || d[0].Kind != DamageFrame || d[0].FirstGroup != g.Number {
		t.Fatalf("damage %v", d)
	}
	_, err := j.Read(g.Frames[0].Loc)
	if !errors.Is(err, ErrDamaged) {
		t.Fatalf("read of the damaged frame: %v", err)
	}
	if len(j.Damage()) != 1 {
		t.Fatalf("the same damage twice: %v", j.Damage())
	}
	if err := errors.Join(j.Drop(g.Segment), j.Reclaim(), j.Prepare()); err != nil {
		t.Fatal(err)
	}
	kept := strings.TrimSuffix(name, segmentSuffix) + keptSuffix
	if !slices.Equal(b.mem.Dump(kept), raw) {
		t.Fatalf("files: %v", b.mem.Names(dir))
	}
	b.kill()
	_, r := b.start()
	if !slices.Equal(r.Kept, []string{path.Base(kept)}) || len(r.Damage) != 0 {
		t.Fatalf("%+v", r)
	}
}

// resealed changes the head of the group that b begins with and makes its checksum right again.
func resealed(t *testing.T, b []byte, change func()) {
	t.Helper()
	p, err := parseGroup(b)
	if err != nil {
		t.Fatal(err)
	}
	change()
	putChecksum(b, checksum(p.epoch, b[:p.headLength], func(yield func([]byte) bool) {
		for _, f := range p.frames {
			if !yield(f) {
				return
			}
		}
	}))
}

func Test_foreign_files_are_reported_and_left_alone(t *testing.T) {
	m, other := makeImage(t), makeImage(t)
	files := maps.Clone(m.files)
	files["notes.txt"] = []byte("mine")
	files["1.seg"] = []byte("no name of ours")
	for name, b := range other.files {
		if name == m.spot[1] {
			b = slices.Clone(b)
			resealed(t, b, func() { copy(b[80:96], "another journal!") })
			files["0000000999.seg"] = b
		}
	}
	_, r, err := m.load(files, Witness{IndexGroup: m.last})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"1.seg", "notes.txt", "0000000999.seg"}
	if !slices.Equal(r.Foreign, want) || len(r.Damage) != 0 {
		t.Fatalf("foreign %v, damage %v", r.Foreign, r.Damage)
	}
	alone := map[string][]byte{identityName: m.files[identityName],
		"0000000999.seg": files["0000000999.seg"]}
	if _, _, err := m.load(alone, Witness{}); !errors.Is(err, ErrForeign) {
		t.Fatalf("a directory of another journal's segments: %v", err)
	}
}

func Test_a_newer_format_is_refused(t *testing.T) {
	m := makeImage(t)
	_, r, err := m.load(m.files, Witness{})
	if err != nil {
		t.Fatal(err)
	}
	newer := maps.Clone(m.files)
	newer[identityName] = encodeIdentity(r.JournalID, formatVersion+1)
	if _, _, err := m.load(newer, Witness{}); !errors.Is(err, ErrNewer) {
		t.Fatalf("JOURNAL of a newer format: %v", err)
	}
	newer = damaged(m.files, m.spot[m.last], func(b []byte) []byte {
		resealed(t, b, func() { b[12] = formatVersion + 1 })
		return b
	})
	if _, _, err := m.load(newer, Witness{}); !errors.Is(err, ErrNewer) {
		t.Fatalf("segment of a newer format: %v", err)
	}
}

func Test_two_segments_of_one_number_are_damage(t *testing.T) {
	m := makeImage(t)
	files := maps.Clone(m.files)
	files["0000000999.seg"] = m.files[m.spot[m.last]]
	_, r, err := m.load(files, Witness{})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Damage) != 1 || r.Damage[0].Kind != DamageDuplicate || r.LastGroup != m.last {
		t.Fatalf("%v, last group %d", r.Damage, r.LastGroup)
	}
}

// badSector is a file system with bytes that the disk refuses to read.
type badSector struct {
	vfs.FS
	file     string
	from, to int64
}

type badFile struct {
	vfs.File
	fs *badSector
}

func (b *badSector) Open(name string, flags vfs.Flag) (vfs.File, error) {
	f, err := b.FS.Open(name, flags)
	if err == nil && path.Base(name) == b.file {
		f = &badFile{f, b}
	}
	return f, err
}

func (f *badFile) ReadAt(b []byte, off int64) (int, error) {
	if off < f.fs.to && off+int64(len(b)) > f.fs.from {
		return 0, syscall.EIO
	}
	return f.File.ReadAt(b, off)
}

func Test_a_sector_that_refuses_to_be_read_is_damage_and_not_a_torn_tail(t *testing.T) {
	for lost := range 5 {
		b := newBench(t)
		j := b.startSettled()
		var groups []*Group
		for tag := range uint64(5) {
			groups = append(groups, appendTags(t, j, 1+tag))
		}
		at := groups[lost].Frames[0].Loc.Offset
		bad := &badSector{b.mem.Kill(nil), j.Segments()[0].File, at, at + 1}
		o := b.o
		o.FS, o.Random = bad, seeded(77)
		j, r := open(t, o)
		number := groups[lost].Number
		if len(r.Damage) != 1 || r.Damage[0].FirstGroup != number || r.Torn != nil {
			t.Fatalf("group %d is unreadable: %v, torn %+v", number, r.Damage, r.Torn)
		}
		if err := j.Settle(); err != nil {
			t.Fatal(err)
		}
		if got := tagsIn(t, j); len(got) != 4 || slices.Contains(got, uint64(lost+1)) {
			t.Fatalf("without group %d the journal holds %v", number, got)
		}
	}
}

func Test_no_descriptors_left_fails_the_open_and_harms_nothing(t *testing.T) {
	b := newBench(t)
	j := b.startSettled()
	appendTags(t, j, 1)
	b.kill()
	b.faulty = vfs.NewFaulty(b.mem, b.clock.Now, nil)
	fault := vfs.Fault{Op: vfs.OpOpen, Pattern: "*.seg", Err: syscall.EMFILE}
	if err := b.faulty.Set("descriptors", fault); err != nil {
		t.Fatal(err)
	}
	o := b.o
	o.FS, o.Random = b.faulty, seeded(78)
	if _, _, err := Open(o); !errors.Is(err, syscall.EMFILE) {
		t.Fatalf("open without descriptors: %v", err)
	}
	wantTags(t, b.startSettled(), 1)
}

func Test_a_read_only_file_system_refuses_groups_and_recovers(t *testing.T) {
	b := newBench(t)
	j := b.startSettled()
	appendTags(t, j, 1)
	fault := vfs.Fault{Op: vfs.OpAll &^ vfs.OpRead, Err: syscall.EROFS}
	if err := b.faulty.Set("read-only", fault); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := j.Append(tagBatch(t, 2)); !errors.Is(err, ErrUnwritable) || j.Writable() {
			t.Fatalf("append: %v", err)
		}
	}
	b.faulty.Clear("read-only")
	appendTags(t, j, 2)
	if !j.Writable() {
		t.Fatal("not writable after a success")
	}
	wantTags(t, j, 1, 2)
	b.power(4)
	wantTags(t, b.startSettled(), 1, 2)
}

func ExampleDamage() {
	fmt.Println(Damage{Kind: DamageTail, FirstGroup: 7, LastGroup: 9, Detail: "the index knows"})
	// Output: tail: segment 0, file "", bytes [0, 0), groups 7 to 9: the index knows
}
