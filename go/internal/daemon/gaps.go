package daemon

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"sluice/go/internal/gaps"
	"sluice/go/internal/lane"
	"sluice/go/internal/store/vfs"
)

// gapsFile lies in the data directory.
const gapsFile = "gaps.json"

// openGaps takes the ledger of refusals up, with what was refused while nobody looked, and has it
// look until closeGaps.
func (d *Daemon) openGaps() error {
	boot, err := lane.BootID()
	if err != nil {
		return err
	}
	d.gaps = gaps.Open(gaps.Options{
		Disk: vfs.NewWhole(vfs.OS(), filepath.Join(d.o.Config.DataDir, gapsFile)),
		Boot: boot, Log: d.log,
	})
	d.readLastWords()
	ctx, end := context.WithCancel(context.Background())
	d.endGaps = end
	d.looking.Go(func() { d.gaps.Run(ctx) })
	return nil
}

// closeGaps looks and saves a last time; no counters are read after that.
func (d *Daemon) closeGaps() {
	if d.endGaps != nil {
		d.endGaps()
		d.looking.Wait()
	}
}

// readLastWords reads the counters that data planes left, or still write, before anybody removes
// the files of the dead.
func (d *Daemon) readLastWords() {
	there := make(map[uint32]bool)
	youngest, words := uint32(0), (*lane.Counters)(nil)
	paths, _ := filepath.Glob(filepath.Join(d.shm.dir, "dp", "*.counters")) // the pattern is good
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".counters")
		generation, err := strconv.ParseUint(name, 10, 32)
		if err != nil {
			continue // none of ours
		}
		counters, err := lane.OpenCounters(path)
		if err != nil {
			continue // unfinished, or of another version: nothing is known of it
		}
		there[uint32(generation)] = true
		d.attachGaps(uint32(generation), path, counters)
		d.gaps.Detach(uint32(generation), false)
		if words == nil || uint32(generation) > youngest {
			counters, words, youngest = words, counters, uint32(generation)
		}
		if counters != nil {
			counters.Close()
		}
	}
	if words != nil {
		d.standing.left(words)
		words.Close()
	}
	d.gaps.Forget(func(generation uint32) bool { return there[generation] })
}

// attachGaps has the ledger look at a data plane.
func (d *Daemon) attachGaps(generation uint32, path string, counters *lane.Counters) {
	born := d.began
	if info, err := os.Stat(path); err == nil {
		born = info.ModTime() // writes through the mapping leave it alone on tmpfs
	}
	d.gaps.Attach(gaps.Plane{
		Generation: generation, Pid: counters.Pid(), Born: born, Counters: counters,
		Name: d.sourceOfSlot,
	})
}

// sourceOfSlot names the source of a slot in the counters, of this or an earlier config.
func (d *Daemon) sourceOfSlot(slot int) (string, bool) {
	names := d.store.Catalogue()
	if names == nil || slot < 0 {
		return "", false
	}
	id := uint32(slot) + 1
	if slot < len(names.Sources) && names.Sources[slot].ID == id { // as they are given out
		return names.Sources[slot].Name, true
	}
	for _, s := range names.Sources {
		if s.ID == id {
			return s.Name, true
		}
	}
	return "", false
}
