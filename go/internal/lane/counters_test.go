package lane

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"sluice/shm-abi/shmabi"
)

// A file that is shorter than its header says is refused by name; nothing of it is read any more.
func TestACountersFileThatDoesNotHoldWhatItSaysIsRefused(t *testing.T) {
	const workers, sources = 1, 2
	whole := shmabi.CountersHeaderSize + sources*shmabi.SourceStateSize +
		workers*(shmabi.WorkerCountersSize+sources*shmabi.SourceCountersSize+
			shmabi.RefusedEntries*shmabi.RefusedSize)
	whole = (whole + 4095) / 4096 * 4096
	le := binary.LittleEndian
	for name, test := range map[string]struct {
		size int
		hurt func(page []byte)
		fits bool
	}{
		"whole":     {whole, func([]byte) {}, true},
		"short":     {whole - 4096, func([]byte) {}, false},
		"no header": {64, func([]byte) {}, false},
		"no magic":  {whole, func(p []byte) { clear(p[:8]) }, false},
		"layout":    {whole, func(p []byte) { p[shmabi.CountersHeaderLayoutHashOffset] ^= 1 }, false},
		"workers": {whole, func(p []byte) {
			le.PutUint32(p[shmabi.CountersHeaderWorkersOffset:], 1<<30)
		}, false},
		"sources": {whole, func(p []byte) {
			le.PutUint32(p[shmabi.CountersHeaderSourcesOffset:], shmabi.SourcesMax+1)
		}, false},
	} {
		page := make([]byte, whole)
		le.PutUint64(page, shmabi.CountersMagic)
		le.PutUint64(page[shmabi.CountersHeaderLayoutHashOffset:], shmabi.LayoutHash)
		le.PutUint32(page[shmabi.CountersHeaderWorkersOffset:], workers)
		le.PutUint32(page[shmabi.CountersHeaderSourcesOffset:], sources)
		test.hurt(page)
		path := filepath.Join(t.TempDir(), "counters")
		if err := os.WriteFile(path, page[:test.size], 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := OpenCounters(path)
		switch {
		case test.fits && err == nil:
			c.Close()
		case test.fits || !errors.Is(err, ErrForeign):
			t.Errorf("%s: %v", name, err)
		}
	}
}
