package store

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"sluice/go/internal/store/vfs"
)

// Whatever an operator does to the files of a journal, a check names it, and what is still there is
// found.
func TestACheckNamesWhatWasDoneToTheFiles(t *testing.T) {
	write := func(t *testing.T, name string, b []byte) {
		t.Helper()
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(t *testing.T, name string) []byte {
		t.Helper()
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, c := range []struct {
		what string
		do   func(t *testing.T, dir, oldest string) // oldest segment's file
		word string                                 // in the names left alone, or in the damage
		lost bool
	}{
		{"a foreign file", func(t *testing.T, dir, _ string) {
			write(t, filepath.Join(dir, "notes.txt"), []byte("x"))
		}, "notes.txt", false},
		{"a renamed segment", func(t *testing.T, dir, oldest string) {
			if err := os.Rename(oldest, filepath.Join(dir, "0000000777.seg")); err != nil {
				t.Fatal(err)
			}
		}, "", false},
		{"a segment twice", func(t *testing.T, dir, oldest string) {
			write(t, filepath.Join(dir, "0000000777.seg"), read(t, oldest))
		}, "", false},
		{"an empty file", func(t *testing.T, dir, _ string) {
			write(t, filepath.Join(dir, "0000000777.seg"), nil)
		}, "", false},
		{"a directory as a segment", func(t *testing.T, dir, _ string) {
			if err := os.Mkdir(filepath.Join(dir, "0000000777.seg"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "0000000777.seg", false},
		{"a directory in place of a segment", func(t *testing.T, _, oldest string) {
			if err := os.Remove(oldest); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(oldest, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "missing", true},
		{"a segment emptied", func(t *testing.T, _, oldest string) {
			write(t, oldest, nil)
		}, "nothing of it is valid", true},
		{"a segment of another journal", func(t *testing.T, dir, _ string) {
			other := newSoak(t, windowMax)
			other.take(plain("theirs"))
			name := filepath.Join(other.opt.Dir, "journal", other.journal.Segments()[0].File)
			other.must(other.Close())
			write(t, filepath.Join(dir, "0000000777.seg"), read(t, name))
		}, "0000000777.seg", false},
	} {
		t.Run(c.what, func(t *testing.T) {
			b := newSoak(t, windowMax)
			b.must(b.Close())
			b.opt.SegmentBytes = 1 << 20
			b.reopen()
			for range 30 {
				b.take(plain(string(make([]byte, 100<<10))))
			}
			dir := filepath.Join(b.opt.Dir, "journal")
			oldest := filepath.Join(dir, b.journal.Segments()[1].File)
			b.must(b.Close())
			c.do(t, dir, oldest)
			r, err := Check(b.opt.Dir, nil)
			b.must(err)
			said := slices.Clone(r.Journal.Foreign)
			for _, d := range r.Journal.Damage {
				said = append(said, d.String())
			}
			if !strings.Contains(strings.Join(said, "\n"), c.word) || r.Damaged() != c.lost {
				t.Errorf("a check says %q, damaged %v", said, r.Damaged())
			}
			b.reopen()
			left := 0
			for _, d := range b.lease(1) {
				p, err := b.Read(d.Seq)
				if err == nil {
					p.Release()
					left++
				}
			}
			if left != 30 && !c.lost || left == 0 {
				t.Errorf("%d of 30 events are left", left)
			}
			b.must(b.Close())
		})
	}
}

// A disk that refuses to read says nothing about what is on it.
func TestACheckTellsAnUnreadableIndexFromADamagedOne(t *testing.T) {
	b := newSickIndex(t)
	b.take(plain("x"))
	b.must(b.Store.Close())
	sick := vfs.NewFaulty(b.disk, nil, nil)
	b.must(sick.Set("read", vfs.Fault{Op: vfs.OpRead, Pattern: "MANIFEST-*", Err: syscall.EIO}))
	r, err := check(b.fs, engineFS{sick}, "data", nil)
	b.must(err)
	if r.IndexState != IndexUnreadable || !strings.Contains(r.IndexDetail, "look after the disk") ||
		r.Journal.Events != 1 || !r.Damaged() {
		t.Errorf("the index is %s: %s; %d events", r.IndexState, r.IndexDetail, r.Journal.Events)
	}
}
