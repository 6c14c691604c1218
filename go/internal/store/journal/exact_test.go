package journal

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"testing"

	"sluice/go/internal/store/vfs"
)

// region is a stretch of a file, and the damage that a change in it is. The zero Damage: nobody
// needs these bytes.
type region struct {
	from, to int64
	what     string
	Damage
}

// regions takes a whole file apart. last is the journal's last group.
func regions(t testing.TB, name string, b []byte, last uint64) []region {
	t.Helper()
	var list []region
	end := int64(0)
	for end < int64(len(b)) {
		p, err := parseGroup(b[end:])
		if err != nil {
			break
		}
		group := Damage{Kind: DamageGroups, File: name, Segment: p.segment, Offset: end,
			Length: p.length, FirstGroup: p.group, LastGroup: p.group}
		if p.group == last {
			// To the disk it looks like one that was interrupted; a witness knows better.
			group = Damage{Kind: DamageTail, File: name, FirstGroup: last, LastGroup: last}
		}
		list = append(list, region{end, end + int64(p.headLength), "head", group})
		for i, f := range p.frames {
			at := end + p.at[i]
			payload := frameDamage(p, end, i)
			payload.File = name
			if p.group == last {
				payload = group
			}
			list = append(list, region{at, at + frameHeader, "lines", group},
				region{at + frameHeader, at + int64(len(f)), "payload", payload})
		}
		list = append(list, region{end + int64(p.headLength) + p.framesLength, end + p.length, "",
			Damage{}})
		end += p.length
	}
	return append(list, region{end, int64(len(b)), "", Damage{}})
}

// checked is what Check says of an image.
func (m *image) checked(t testing.TB, files map[string][]byte) *Report {
	t.Helper()
	mem := vfs.NewMem()
	for name, b := range files {
		mem.Put(dir+"/"+name, b)
	}
	r, err := Check(Options{FS: mem, Dir: dir, Witness: Witness{IndexGroup: m.last}}, nil)
	if err != nil {
		t.Fatalf("check: %v", err)
	}
	return r
}

// Each byte of a journal, flipped, is reported as what it was part of, and nothing else is.
func Test_a_flipped_byte_is_named_exactly(t *testing.T) {
	m := makeImage(t)
	whole := m.checked(t, m.files)
	if len(whole.Damage) > 0 || whole.Groups != m.last || whole.Events != 24 {
		t.Fatalf("a whole journal: %+v", whole)
	}
	stride := 97
	if soak() {
		stride = 1
	}
	rng := newRand(t, 3)
	flips := map[string]int{}
	for name, b := range m.files {
		list := []region{{0, int64(len(b)), "identity",
			Damage{Kind: DamageIdentity, File: identityName}}}
		if name != identityName {
			list = regions(t, name, b, m.last)
		}
		for at := rng.IntN(stride); at < len(b); at += 1 + rng.IntN(2*stride-1) {
			i, _ := slices.BinarySearchFunc(list, int64(at)+1, func(r region, at int64) int {
				return cmp.Compare(r.to, at)
			})
			flip := byte(1 + rng.IntN(255))
			r := m.checked(t, damaged(m.files, name, func(b []byte) []byte {
				b[at] ^= flip
				return b
			}))
			flips[list[i].what]++
			want := list[i].Damage
			text := fmt.Sprintf("byte %d of %s, in %q of group %d, flipped by %#02x", at, name,
				list[i].what, want.FirstGroup, flip)
			if want.Kind == 0 {
				if len(r.Damage) > 0 || r.Events != whole.Events {
					t.Errorf("%s: %v, %d events", text, r.Damage, r.Events)
				}
				continue
			}
			if len(r.Damage) != 1 {
				t.Errorf("%s: %d damages: %v", text, len(r.Damage), r.Damage)
				continue
			}
			got := r.Damage[0]
			got.Detail = want.Detail
			if got != want {
				t.Errorf("%s:\n got %+v\nwant %+v", text, r.Damage[0], want)
			}
		}
	}
	t.Logf("flips: %v", flips)
}

// lostGroups are the numbers that a report says are lost.
func lostGroups(list []Damage) (lost []uint64) {
	for _, d := range list {
		for n := d.FirstGroup; n > 0 && n <= d.LastGroup; n++ {
			lost = append(lost, n)
		}
	}
	slices.Sort(lost)
	return lost
}

func Test_a_truncated_file_is_named_exactly(t *testing.T) {
	m := makeImage(t)
	stride := 509
	if soak() {
		stride = 1
	}
	for name, b := range m.files {
		for size := 0; size < len(b); size += stride {
			r := m.checked(t, damaged(m.files, name, func(b []byte) []byte { return b[:size] }))
			if name == identityName {
				if len(r.Damage) != 1 || r.Damage[0].Kind != DamageIdentity || r.Lost != 0 {
					t.Fatalf("%s cut to %d: %v", name, size, r.Damage)
				}
				continue
			}
			var want []uint64
			for off := int64(0); off < int64(len(b)); {
				p, err := parseGroup(b[off:])
				if err != nil {
					break
				}
				if off += p.length; off > int64(size) {
					want = append(want, p.group)
				}
			}
			if got := lostGroups(r.Damage); !slices.Equal(got, want) ||
				r.Lost != uint64(len(want)) || r.Groups != m.last-r.Lost {
				t.Fatalf("%s cut to %d: lost %v, want %v: %v", name, size, got, want, r.Damage)
			}
		}
	}
}

func Test_a_check_changes_nothing(t *testing.T) {
	m := makeImage(t)
	for name, change := range map[string]func(files map[string][]byte){
		"whole":       func(map[string][]byte) {},
		"left behind": func(f map[string][]byte) { f[identityTemp], f[probeName] = nil, nil },
		"no identity": func(f map[string][]byte) { delete(f, identityName) },
		"damaged":     func(f map[string][]byte) { f[m.spot[3]] = make([]byte, 4096) },
		"empty": func(f map[string][]byte) {
			clear(f)
			f["notes.txt"] = nil
		},
	} {
		files := maps.Clone(m.files)
		change(files)
		mem := vfs.NewMem()
		for name, b := range files {
			mem.Put(dir+"/"+name, b)
		}
		rec := vfs.Record(mem)
		if _, err := Check(Options{FS: rec, Dir: dir}, nil); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for cut := range rec.Cuts() {
			if cut.At > 0 {
				t.Errorf("%s: a change:\n%v", name, cut)
			}
		}
	}
	if _, err := Check(Options{FS: vfs.NewMem(), Dir: dir}, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}
