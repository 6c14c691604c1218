package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"sluice/go/internal/store"
	"sluice/go/internal/store/journal"
	"sluice/go/internal/store/vfs"
	"sluice/go/storebench/meter"
)

// measureFill appends c.Events events that nobody fetches and leaves the store open: the process is
// to be killed now.
func measureFill(c meter.Case) (r meter.Result, err error) {
	f, err := newFrames(c.Size, c.Group, c.Keys)
	if err != nil {
		return r, err
	}
	s, err := openStore(c, diskMax)
	if err != nil {
		return r, err
	}
	m, err := meter.Start(c, nil)
	if err != nil {
		return r, err
	}
	feed := &feeder{s, f, c.Group}
	for r.Events < c.Events {
		if s.Space().Full {
			return r, fmt.Errorf("the disk is full after %d events", r.Events)
		}
		took, err := feed.put()
		if err != nil {
			return r, err
		}
		r.Times.Note(took)
		r.Events += c.Group
	}
	r.Bytes = int64(r.Events) * int64(f.frameBytes())
	r.Figures = stages(s, r.Events)
	return r, m.Stop(&r)
}

// measureOpen opens what a killed process has left, with nothing of it in the page cache, then the
// same once more after it was closed, then the journal alone. A delivery is leased and read after
// the first one.
func measureOpen(c meter.Case) (r meter.Result, err error) {
	m, err := meter.Start(c, nil)
	if err != nil {
		return r, err
	}
	if err := forgetPages(c.Dir); err != nil {
		return r, err
	}
	read := readBytes()
	began := time.Now()
	s, err := reopen(c)
	if err != nil {
		return r, err
	}
	killed := time.Since(began)
	read = readBytes() - read
	list := s.Lease(destination, 1, time.Now())
	if len(list) != 1 {
		return r, errors.Join(errors.New("nothing is due after the start"), s.Close())
	}
	p, err := s.Read(list[0].Seq)
	if err != nil {
		return r, errors.Join(err, s.Close())
	}
	p.Release()
	first := time.Since(began)
	r.Times.Note(killed)
	r.Events = int(s.Space().Living)
	replayed, found := s.Recovery().Replayed, s.Recovery()
	if len(found.Damage) > 0 || found.IndexRebuilt {
		r.Notes = append(r.Notes, fmt.Sprintf("index rebuilt: %v; damage: %q", found.IndexRebuilt,
			found.Damage))
	}
	memory := peakMemory()
	if err := s.Close(); err != nil {
		return r, err
	}
	if err := m.Stop(&r); err != nil {
		return r, err
	}

	if err := forgetPages(c.Dir); err != nil {
		return r, err
	}
	began = time.Now()
	if s, err = reopen(c); err != nil {
		return r, err
	}
	closed := time.Since(began)
	if err := s.Close(); err != nil {
		return r, err
	}
	if err := forgetPages(c.Dir); err != nil {
		return r, err
	}
	began = time.Now()
	j, _, err := journal.Open(journal.Options{
		FS: vfs.OS(), Dir: filepath.Join(c.Dir, "store", "journal"),
	})
	if err != nil {
		return r, err
	}
	alone := time.Since(began)
	r.Figures = map[string]float64{
		"open s": killed.Seconds(), "first delivery s": first.Seconds(),
		"groups replayed": float64(replayed), "read MB": float64(read) / (1 << 20),
		"open after a clean stop s": closed.Seconds(), "journal alone s": alone.Seconds(),
		"peak memory MB": memory,
	}
	return r, j.Close()
}

func reopen(c meter.Case) (*store.Store, error) {
	s, err := store.Open(context.Background(), store.Options{
		Dir: filepath.Join(c.Dir, "store"), Log: slog.New(slog.DiscardHandler),
		Retention: store.Retention{MaxAge: -1, MaxBytes: diskMax},
	})
	if err != nil {
		return nil, err
	}
	if err := s.Settle(context.Background()); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// forgetPages takes the files of a folder out of the page cache, as a restart of the machine would.
func forgetPages(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return errors.Join(f.Sync(), unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
	})
}

// readBytes is what the process had the disk read; proc_pid_io(5).
func readBytes() (n int64) {
	data, _ := os.ReadFile("/proc/self/io")
	_, text, _ := strings.Cut(string(data), "\nread_bytes: ")
	_, _ = fmt.Sscan(text, &n)
	return n
}

// peakMemory is the most that the process had in memory, in MB; proc_pid_status(5).
func peakMemory() float64 {
	var kb float64
	data, _ := os.ReadFile("/proc/self/status")
	_, text, _ := strings.Cut(string(data), "VmHWM:")
	_, _ = fmt.Sscan(text, &kb)
	return kb / 1024
}
