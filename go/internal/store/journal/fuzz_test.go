package journal

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"sluice/go/internal/store/vfs"
)

// sealAll makes the checksums of all groups right that still parse, so that what is behind them is
// reached as well.
func sealAll(b []byte) {
	for at := 0; at+BlockSize <= len(b); at += BlockSize {
		h, _, err := parseHeader(b[at:])
		if err != nil || h.length > int64(len(b)-at) {
			continue
		}
		p := &parsed{header: h, bytes: b[at:][:h.length]}
		if p.parseFrames() != nil {
			continue
		}
		putChecksum(b[at:], checksum(p.epoch, p.bytes[:p.headLength], func(yield func([]byte) bool) {
			for _, f := range p.frames {
				if !yield(f) {
					return
				}
			}
		}))
	}
}

// Whatever a segment file holds, a start and a check come to an end and panic at nothing. Edits are
// three bytes each: a place and what is put there.
func FuzzASegmentFile(f *testing.F) {
	m := makeImage(f)
	var names []string
	for name := range m.files {
		if name != identityName {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	f.Add(uint8(0), []byte{8, 0, 1}, false)
	f.Add(uint8(0), []byte{14, 0, 0, 60, 0, 7, 64, 0, 9}, true)
	f.Add(uint8(2), []byte{68, 0, 1, 48, 0x10, 0xff, 0, 0x40, 0}, true)
	f.Fuzz(func(t *testing.T, file uint8, edits []byte, seal bool) {
		name := names[int(file)%len(names)]
		b := slices.Clone(m.files[name])
		for ; len(edits) >= 3; edits = edits[3:] {
			b[int(binary.LittleEndian.Uint16(edits))%len(b)] = edits[2]
		}
		if seal {
			sealAll(b)
		}
		mem := vfs.NewMem()
		for other, content := range m.files {
			mem.Put(dir+"/"+other, content)
		}
		mem.Put(dir+"/"+name, b)
		_, checkErr := Check(Options{FS: mem, Dir: dir}, nil)
		o := options(mem, newClock(), 3)
		o.SegmentSize = 20 << 10
		j, _, err := Open(o)
		if err != nil {
			if checkErr == nil {
				t.Fatalf("open: %v; and a check finds nothing", err)
			}
			return
		}
		defer abandon(j)
		if err := j.Settle(); err != nil {
			t.Fatal(err)
		}
		err = j.Replay(0, func(g *Group) error {
			for _, frame := range g.Frames {
				if seal || frame.Kind != KindEvent || frame.Damaged {
					continue
				}
				if tag := tagOf(frame.Bytes); !slices.Contains(m.groups[g.Number], tag) {
					t.Fatalf("event %d of group %d was never written", tag, g.Number)
				}
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrNewer) {
			t.Fatal(err)
		}
	})
}
