package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"time"

	"sluice/go/internal/lane"
	"sluice/go/internal/store/vfs"
	"sluice/shm-abi/shmabi"
)

const (
	// standingFile lies in the data directory: senders go on counting while no process lives.
	standingFile     = "standing.json"
	standingFileMax  = 64 << 10 // bytes; a source takes 20
	standingInterval = time.Second
)

// standingNote is the file: refusals in a row by source number, those without any left out.
type standingNote struct {
	RefusedInRow map[string]uint32 `json:"refused_in_row"`
}

// openStanding takes up what the last life had counted. A file that cannot be read is worth a line
// in the log and nothing more: it costs some sources their guard.
func (d *Daemon) openStanding() {
	file := vfs.NewWhole(vfs.OS(), filepath.Join(d.o.Config.DataDir, standingFile))
	refused, err := readStanding(file)
	if err != nil {
		d.log.Warn("refusals in a row of earlier lives are not known", "error", err)
	}
	d.standing.mu.Lock()
	defer d.standing.mu.Unlock()
	d.standing.file, d.standing.saved, d.standing.refused = file, refused, maps.Clone(refused)
	d.standing.changes++
}

func readStanding(file *vfs.Whole) (map[int]uint32, error) {
	text, err := file.Read(standingFileMax)
	if err != nil || text == nil {
		return nil, err
	}
	var note standingNote
	if err := json.Unmarshal(text, &note); err != nil {
		return nil, fmt.Errorf("%s: %w", standingFile, err)
	}
	refused := make(map[int]uint32)
	for text, n := range note.RefusedInRow {
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil || id == 0 || id > shmabi.SourcesMax {
			return nil, fmt.Errorf("%s: %q is no source number", standingFile, text)
		}
		refused[int(id)-1] = n
	}
	return refused, nil
}

// keepStanding saves what changed, once a second, and a last time when ctx ends.
func (d *Daemon) keepStanding(ctx context.Context) {
	tick := time.NewTicker(standingInterval)
	defer tick.Stop()
	warned := false
	for ending := false; !ending; {
		select {
		case <-ctx.Done():
			ending = true
		case <-tick.C:
		}
		d.mu.Lock() // whoever unmaps counters has it
		d.standing.mu.Lock()
		now := d.standing.now(d.youngest())
		d.standing.mu.Unlock()
		d.mu.Unlock()
		err := d.standing.save(now)
		if err != nil && !warned {
			d.log.Warn("refusals in a row are not saved; a restart would forget them", "error", err)
		}
		warned = err != nil
	}
}

// now is what is kept and, over it, what a living data plane has counted; the caller holds the
// lock.
func (s *standing) now(living *lane.Counters) map[int]uint32 {
	refused := make(map[int]uint32)
	maps.Copy(refused, s.refused)
	if living != nil {
		takeOver(refused, living)
	}
	return refused
}

// save writes the file if it says something else. Only keepStanding calls it.
func (s *standing) save(refused map[int]uint32) error {
	if maps.Equal(refused, s.saved) {
		return nil
	}
	note := standingNote{RefusedInRow: make(map[string]uint32)}
	for slot, n := range refused {
		note.RefusedInRow[strconv.Itoa(slot+1)] = n
	}
	text, err := json.Marshal(note)
	if err != nil {
		return err
	}
	if err := s.file.Write(append(text, '\n')); err != nil {
		return err
	}
	s.saved = refused
	return nil
}
