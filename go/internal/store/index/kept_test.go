package index

import (
	"context"
	"encoding/binary"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"sluice/go/internal/event"
)

const keptDay = 2000

func keptKey(n uint64) (key [16]byte) {
	binary.LittleEndian.PutUint64(key[:], n)
	return key
}

// addKeys adds keys of one day and commits now and then.
func addKeys(t *testing.T, x *Index, from, to uint64) {
	t.Helper()
	x.Meta().Horizon = keptDay * dayNS
	for n := from; n < to; n++ {
		x.AddDedup(Dedup{Source: 1, Key: keptKey(n), First: event.ID{1}, Until: keptDay*dayNS + 1})
		if n%1000 == 0 {
			must(t, x.Commit())
		}
	}
	must(t, x.Commit())
}

// unknown counts the keys below end of which the loaded filters say that they never came.
func unknown(x *Index, end uint64) (count int) {
	for n := range end {
		key := keptKey(n)
		if b := x.buckets[0]; b.found.Load() == nil || !b.has(hashKey(1, &key)) {
			count++
		}
	}
	return count
}

// The filters of one life are kept, of another not; lives end well, or with a crash that takes keys
// and the names of filters back.
func TestFiltersOfManyLivesKnowEveryKey(t *testing.T) {
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 3))
		fs, keys, kept := vfs.NewCrashableMem(), uint64(0), 0
		for range 12 {
			x := open(t, fs)
			// None is kept, or all, or those that are filled.
			x.partKeys, x.keepBytes = 7000, []int64{1, 64 << 10, math.MaxInt64}[rng.IntN(3)]
			must(t, x.LoadFilters(context.Background()))
			if keys > 0 {
				if n := unknown(x, keys); n > 0 {
					t.Fatalf("seed %d: filters from %d files and rows know %d of %d keys not", seed,
						len(x.buckets[0].kept), n, keys)
				}
				kept += len(x.buckets[0].kept)
				for range 200 {
					key := keptKey(rng.Uint64N(keys))
					if _, ok, err := x.LookupDedup(1, key, keptDay*dayNS); !ok || err != nil {
						t.Fatalf("seed %d: a key is not found where its filter says: %v", seed, err)
					}
				}
			}
			next := keys + 2000 + rng.Uint64N(35_000)
			addKeys(t, x, keys, next)
			if rng.IntN(2) == 0 {
				must(t, x.Close())
				keys = next
				continue
			}
			must(t, x.db.Flush())
			keys = next
			addKeys(t, x, keys, keys+rng.Uint64N(30_000)) // which nobody will know of
			clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng})
			must(t, x.Abandon())
			fs = clone
		}
		if kept == 0 {
			t.Errorf("seed %d: no filter was kept", seed)
		}
	}
}

func TestAKeptFilterSparesTheRows(t *testing.T) {
	fs := vfs.NewMem()
	x := open(t, fs)
	x.partKeys, x.keepBytes = 7000, 1
	const keys, filled = 60_000, 64 << 10 * 8 / 24 // keys of the first chunk
	addKeys(t, x, 0, keys)
	must(t, x.Close())

	x = open(t, fs)
	must(t, x.db.DeleteRange(dedupDayKey(keptDay), dedupDayKey(keptDay+1), pebble.NoSync))
	must(t, x.LoadFilters(context.Background()))
	if n := unknown(x, filled); n > 0 {
		t.Errorf("%d of the %d keys of a kept filter are not known without their rows", n, filled)
	}
	must(t, x.Close())
}

// A filter that is damaged, cut or gone is made of the rows again, and kept again.
func TestADamagedFilterIsMadeAgain(t *testing.T) {
	const keys = 60_000
	damages := map[string]func(t *testing.T, fs vfs.FS, path string){
		"flipped": func(t *testing.T, fs vfs.FS, path string) {
			b := readAll(t, fs, path)
			b[len(b)/2] ^= 1
			writeAll(t, fs, path, b)
		},
		"cut": func(t *testing.T, fs vfs.FS, path string) {
			writeAll(t, fs, path, readAll(t, fs, path)[:999])
		},
		"empty": func(t *testing.T, fs vfs.FS, path string) { writeAll(t, fs, path, nil) },
		"gone":  func(t *testing.T, fs vfs.FS, path string) { must(t, fs.Remove(path)) },
	}
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			fs := vfs.NewMem()
			x := open(t, fs)
			x.partKeys, x.keepBytes = 7000, 1
			addKeys(t, x, 0, keys)
			must(t, x.Close())
			files := keptFiles(t, fs)
			if len(files) == 0 {
				t.Fatal("no filter was kept")
			}
			for _, path := range files {
				damage(t, fs, path)
			}
			for _, life := range []string{"with the damage", "after it"} {
				x = open(t, fs)
				x.partKeys, x.keepBytes = 7000, 1
				must(t, x.LoadFilters(context.Background()))
				if n := unknown(x, keys); n > 0 {
					t.Errorf("%s: %d of %d keys are not known", life, n, keys)
				}
				must(t, x.Close())
			}
			if n := len(keptFiles(t, fs)); n == 0 {
				t.Error("no filter is kept again")
			}
		})
	}
}

// What no meta row names goes at the next start, and a day's files with the day.
func TestFilesOfFiltersDoNotPileUp(t *testing.T) {
	fs := vfs.NewMem()
	x := open(t, fs)
	x.partKeys, x.keepBytes = 7000, 1
	addKeys(t, x, 0, 60_000)
	must(t, x.Close())
	writeAll(t, fs, "index/foreign.filter", []byte("x"))
	x = open(t, fs)
	before := keptFiles(t, fs)
	for _, path := range before {
		if filepath.Base(path) == "foreign.filter" {
			t.Error("a file that nobody names stays")
		}
	}
	if len(before) == 0 {
		t.Fatal("no filter was kept")
	}
	x.Meta().Horizon = (keptDay + 2) * dayNS
	must(t, x.Commit())
	must(t, x.Close())
	if after := keptFiles(t, fs); len(after) > 0 {
		t.Errorf("files of a day that is past stay: %v", after)
	}
}

func keptFiles(t *testing.T, fs vfs.FS) (paths []string) {
	t.Helper()
	names, err := fs.List("index")
	must(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, keptSuffix) {
			paths = append(paths, filepath.Join("index", name))
		}
	}
	return paths
}

func readAll(t *testing.T, fs vfs.FS, path string) []byte {
	t.Helper()
	f, err := fs.Open(path)
	must(t, err)
	b, err := io.ReadAll(f)
	must(t, err)
	must(t, f.Close())
	return b
}

func writeAll(t *testing.T, fs vfs.FS, path string, b []byte) {
	t.Helper()
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	must(t, err)
	_, err = f.Write(b)
	must(t, err)
	must(t, f.Close())
}
