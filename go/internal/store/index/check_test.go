package index

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"sluice/go/internal/event"
)

// filled is an index with rows of many kinds, closed.
func filled(t *testing.T) *vfs.MemFS {
	t.Helper()
	files := vfs.NewMem()
	x := open(t, files)
	for g := range uint64(200) {
		r := pendingRecord(event.NewSeq(g+1, 0))
		x.Change(r)
		x.Meta().Applied = g + 1
		must(t, x.Commit())
		if g%50 == 49 {
			done, err := x.Flush()
			must(t, err)
			<-done
		}
	}
	must(t, x.Close())
	return files
}

func contents(t *testing.T, files vfs.FS) map[string][]byte {
	t.Helper()
	names, err := files.List("index")
	must(t, err)
	all := map[string][]byte{}
	for _, name := range names {
		f, err := files.Open("index/" + name)
		must(t, err)
		all[name], err = io.ReadAll(f)
		must(t, errors.Join(err, f.Close()))
	}
	return all
}

func withFiles(t *testing.T, all map[string][]byte) *vfs.MemFS {
	t.Helper()
	files := vfs.NewMem()
	must(t, files.MkdirAll("index", 0o700))
	for name, b := range all {
		f, err := files.Create("index/"+name, vfs.WriteCategoryUnspecified)
		must(t, err)
		_, err = f.Write(bytes.Clone(b))
		must(t, errors.Join(err, f.Close()))
	}
	return files
}

func TestACheckReadsTheWholeIndexAndChangesNothing(t *testing.T) {
	files := filled(t)
	before := contents(t, files)
	r, err := Check(files, "index", nil)
	must(t, err)
	if r.Applied != 200 || r.Events != 200 || r.Rows < 200 || r.JournalID != testJournal ||
		r.OtherFormat {
		t.Errorf("a whole index: %+v", r)
	}
	after := contents(t, files)
	for name, b := range before {
		if !bytes.Equal(after[name], b) {
			t.Errorf("%s has changed", name)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d files, were %d", len(after), len(before))
	}
	if _, err := Check(vfs.NewMem(), "index", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no index: %v", err)
	}
	must(t, Suspect(files, "index"))
	if _, err := Check(files, "index", nil); !errors.Is(err, ErrDamaged) {
		t.Errorf("an index that a run found damaged: %v", err)
	}
}

func TestACheckFindsEveryFlipThatAReaderWouldMeet(t *testing.T) {
	all := contents(t, filled(t))
	flips := 150
	if os.Getenv("SLUICE_SOAK") == "1" {
		flips = 2000
	}
	const seed = 7
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var names []string
	for name, b := range all {
		if len(b) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	found := 0
	for range flips {
		name := names[rng.IntN(len(names))]
		at, by := rng.IntN(len(all[name])), byte(1+rng.IntN(255))
		damaged := map[string][]byte{}
		for other, b := range all {
			damaged[other] = bytes.Clone(b)
		}
		damaged[name][at] ^= by
		r, err := Check(withFiles(t, damaged), "index", nil)
		switch {
		case errors.Is(err, ErrDamaged):
			found++
		case err != nil:
			t.Fatalf("byte %d of %s by %#02x: %v", at, name, by, err)
		case r.Events != r.Applied || r.Applied > 200: // the last files may be lost like in a crash
			t.Fatalf("byte %d of %s by %#02x: whole, but %+v", at, name, by, r)
		}
	}
	if found < flips/4 {
		t.Errorf("only %d of %d flips were found", found, flips)
	}
	t.Logf("%d of %d flips are damage, the others leave an index", found, flips)
}
