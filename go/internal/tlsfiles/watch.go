package tlsfiles

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"slices"
	"syscall"
	"time"
)

// Watch looks at the files in force and turns the ticket keys until ctx ends. changed puts what
// there is now in force; where it fails, the files go back to what they were, and are offered again
// after a minute.
func Watch(ctx context.Context, files func() *Files, tickets *Tickets, changed func() error) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		step(files(), tickets, changed)
	}
}

// step is one look.
func step(files *Files, tickets *Tickets, changed func() error) {
	replaced, undo := files.look()
	if turned := tickets.turn(); len(replaced) == 0 && !turned {
		return
	}
	if err := changed(); err != nil {
		files.log.Error("new certificates or ticket keys are not in force", "error", err)
		undo()
	} else if len(replaced) > 0 {
		files.log.Info("certificates that were replaced on disk are in force", "files", replaced)
	}
}

// watched is files that change together.
type watched struct {
	paths []string
	judge func(parts [][]byte) error // also takes the parts up where it keeps anything of them

	parts [][]byte // in force
	marks []mark   // of the files when they were last read
	again int      // looks at which they are read whatever their marks say
	lost  int      // looks in a row at which there was nothing to read

	next    [][]byte  // what was read at the last look, otherwise than parts; nil: nothing
	refused bool      // next does not hold
	from    time.Time // when next may be taken up
}

// mark is what stat says of a file behind any links.
type mark struct {
	device, inode     uint64
	size              int64
	modified, changed syscall.Timespec
}

// begin reads the files for the first time.
func (w *watched) begin(judge func(parts [][]byte) error) error {
	w.judge, w.again = judge, lookAgain
	marks, err := marksOf(w.paths)
	if err != nil {
		return err
	}
	w.marks = marks
	if w.parts, err = readAll(w.paths); err != nil {
		return err
	}
	return w.judge(w.parts)
}

// look takes up a change that it sees for the second time, and gives how to take it back.
func (w *watched) look(log *slog.Logger, now time.Time) (undo func()) {
	marks, err := marksOf(w.paths)
	if err == nil && slices.Equal(marks, w.marks) && w.again == 0 && w.next == nil {
		return nil
	}
	var parts [][]byte
	if err == nil {
		parts, err = readAll(w.paths)
	}
	if err != nil {
		w.missing(log, err)
		return nil
	}
	if slices.Equal(marks, w.marks) {
		w.again = max(0, w.again-1)
	} else {
		w.marks, w.again = marks, lookAgain
	}
	w.lost = 0
	switch {
	case slices.EqualFunc(parts, w.parts, bytes.Equal):
		w.next = nil
		return nil
	case !slices.EqualFunc(parts, w.next, bytes.Equal):
		w.next, w.refused, w.from = parts, false, time.Time{}
		return nil
	case w.refused || now.Before(w.from):
		return nil
	}
	if err := w.judge(parts); err != nil {
		w.refused = true
		log.Warn("a certificate on disk cannot be used: the one before it stays", "error", err)
		return nil
	}
	before := w.parts
	w.parts, w.next = parts, nil
	return func() { w.parts, w.next, w.from = before, parts, now.Add(refusedAgain) }
}

// missing tells once of files that are not there at two looks in a row.
func (w *watched) missing(log *slog.Logger, err error) {
	if w.lost++; w.lost == 2 {
		log.Warn("a certificate cannot be read any more: what was read before stays", "error", err)
	}
	w.again = lookAgain
}

func marksOf(paths []string) ([]mark, error) {
	marks := make([]mark, len(paths))
	for i, path := range paths {
		var s syscall.Stat_t
		if err := syscall.Stat(path, &s); err != nil {
			return nil, &os.PathError{Op: "stat", Path: path, Err: err}
		}
		// The width of some fields is the platform's.
		marks[i] = mark{uint64(s.Dev), s.Ino, s.Size, s.Mtim, s.Ctim}
	}
	return marks, nil
}

func readAll(paths []string) ([][]byte, error) {
	parts := make([][]byte, len(paths))
	for i, path := range paths {
		var err error
		if parts[i], err = read(path); err != nil {
			return nil, err
		}
	}
	return parts, nil
}
