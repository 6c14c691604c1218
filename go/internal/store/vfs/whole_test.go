package vfs

import (
	"errors"
	"os"
	"path"
	"slices"
	"syscall"
	"testing"
)

func Test_a_whole_file_is_what_was_written_last(t *testing.T) {
	for name, on := range map[string]struct {
		fs  FS
		dir string
	}{"os": {OS(), t.TempDir()}, "mem": {NewMem(), "."}} {
		t.Run(name, func(t *testing.T) {
			w := NewWhole(on.fs, path.Join(on.dir, "file"))
			if b, err := w.Read(10); b != nil || err != nil {
				t.Fatalf("before the first write: %q, %v", b, err)
			}
			if _, err := w.SetAside(".aside"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("set aside: %v", err)
			}
			for _, text := range []string{"long text", "", "short"} {
				if err := w.Write([]byte(text)); err != nil {
					t.Fatal(err)
				}
				if b, err := w.Read(10); b == nil || string(b) != text || err != nil {
					t.Errorf("read %q, %v, want %q", b, err, text)
				}
			}
			if _, err := w.Read(4); err == nil {
				t.Error("a file over the limit is read")
			}
			aside, err := w.SetAside(".aside")
			if err != nil || aside != path.Join(on.dir, "file.aside") {
				t.Errorf("set aside as %s, %v", aside, err)
			}
			if list, err := on.fs.List(on.dir); err != nil || !slices.Equal(list, []string{"file.aside"}) {
				t.Errorf("there are %v, %v", list, err)
			}
		})
	}
}

func Test_a_write_of_a_whole_file_that_fails_leaves_the_one_before(t *testing.T) {
	for _, op := range []Op{OpCreate, OpWrite, OpSync, OpRename} {
		m := NewMem()
		faulty := NewFaulty(m, nil, nil)
		w := NewWhole(faulty, "file")
		if err := w.Write([]byte("before")); err != nil {
			t.Fatal(err)
		}
		if err := faulty.Set("one", Fault{Op: op, Err: syscall.ENOSPC}); err != nil {
			t.Fatal(err)
		}
		if err := w.Write([]byte("after")); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("op %d: %v", op, err)
		}
		if got := m.Dump("file"); string(got) != "before" {
			t.Errorf("op %d: the file is %q", op, got)
		}
		if op != OpRename && len(m.Names("")) != 1 {
			t.Errorf("op %d: there are %v", op, m.Names(""))
		}
		faulty.Clear("")
		if err := w.Write([]byte("after")); err != nil || string(m.Dump("file")) != "after" {
			t.Errorf("op %d: then %v, %q", op, err, m.Dump("file"))
		}
	}
}
