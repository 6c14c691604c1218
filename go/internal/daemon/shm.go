package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"sluice/go/internal/config"
	"sluice/go/internal/lane"
)

const (
	tmpfsMagic   = 0x01021994 // TMPFS_MAGIC of linux/magic.h
	lockPatience = 5 * time.Second
)

// shm is the journal's directory on tmpfs: control page, lanes, sockets. It is named by the journal
// so that two data directories share nothing.
type shm struct {
	dir     string
	lock    *os.File
	control *lane.Control
}

// openShm makes the directory where there is none, locks it and maps the control page.
func openShm(c *config.Config, journal [16]byte) (*shm, error) {
	dir := filepath.Join(c.ShmDir, fmt.Sprintf("%x", journal))
	for _, d := range []string{dir, filepath.Join(dir, "dp"), filepath.Join(dir, "lanes")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("shm_dir: %w", err)
		}
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return nil, fmt.Errorf("shm_dir %s: %w", dir, err)
	}
	if int64(fs.Type) != tmpfsMagic {
		return nil, fmt.Errorf("shm_dir %s is not on tmpfs: lanes on a disk would be slow and would "+
			"outlive a reboot; choose a directory below /dev/shm", c.ShmDir)
	}
	lock, err := flock(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, err
	}
	page := filepath.Join(dir, "control")
	control, err := lane.OpenControl(page, journal)
	if errors.Is(err, lane.ErrForeign) && deserted(dir) {
		// Another version's, and nobody reads it any more: an upgrade after an orderly stop.
		if err = os.Remove(page); err == nil {
			control, err = lane.OpenControl(page, journal)
		}
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &shm{dir: dir, lock: lock, control: control}, nil
}

// deserted tells whether no data plane and no lane is left there.
func deserted(dir string) bool {
	for _, d := range []string{"dp", "lanes"} {
		left, err := os.ReadDir(filepath.Join(dir, d))
		if err != nil || len(left) > 0 {
			return false
		}
	}
	return true
}

// flock takes the lock that the kernel gives back at death, whatever kind of death it is. The data
// plane does not inherit it.
func flock(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	for until := time.Now().Add(lockPatience); ; time.Sleep(50 * time.Millisecond) {
		err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if time.Now().After(until) {
			break
		}
	}
	_ = file.Close() // the lock was not got
	return nil, fmt.Errorf("another sluice serves this journal: %s is locked: %w", path, err)
}

// durableGroup is the witness that another life of this boot left, or 0.
func durableGroup(c *config.Config, journal [16]byte) uint64 {
	path := filepath.Join(c.ShmDir, fmt.Sprintf("%x", journal), "control")
	if _, err := os.Stat(path); err != nil {
		return 0
	}
	control, err := lane.OpenControl(path, journal)
	if err != nil {
		return 0 // openShm will say so
	}
	defer control.Close()
	return control.DurableGroup()
}

func (s *shm) close() {
	s.control.Close()
	_ = s.lock.Close() // gives the lock back
}
