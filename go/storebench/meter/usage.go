package meter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/referee"
)

// Meter counts what a stretch of work costs.
type Meter struct {
	// Servers gives the CPU seconds of other processes that belong to the work; nil: there are none.
	Servers func() float64

	dir     string
	began   time.Time
	own     float64
	servers float64
	busy    float64
	device  float64
	profile *os.File
}

// Start begins to count. What earlier work left in the page cache is on the disk before.
func Start(c Case, servers func() float64) (*Meter, error) {
	m := &Meter{Servers: servers, dir: c.Dir}
	if err := syncDisk(c.Dir); err != nil {
		return nil, err
	}
	if c.Profile != "" {
		f, err := os.Create(c.Profile)
		if err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		m.profile = f
	}
	m.device = deviceWritten(c.Dir)
	m.busy, m.own, m.servers = referee.Busy(), referee.Own(), m.serverUsage()
	m.began = time.Now()
	return m, nil
}

// Elapsed is the time since Start.
func (m *Meter) Elapsed() time.Duration { return time.Since(m.began) }

// Stop ends the count and fills a result in. What is still on its way to the disk is waited for and
// counts as written, but its time does not.
func (m *Meter) Stop(r *Result) error {
	r.Wall = time.Since(m.began).Seconds()
	busy := referee.Busy()
	r.CPU = referee.Own() - m.own + m.serverUsage() - m.servers
	r.Other = max(0, busy-m.busy-r.CPU)
	if m.profile != nil {
		pprof.StopCPUProfile()
		if err := m.profile.Close(); err != nil {
			return err
		}
	}
	if err := syncDisk(m.dir); err != nil {
		return err
	}
	r.Device = -1
	if now := deviceWritten(m.dir); now >= 0 && m.device >= 0 {
		r.Device = now - m.device
	}
	return nil
}

func (m *Meter) serverUsage() float64 {
	if m.Servers == nil {
		return 0
	}
	return m.Servers()
}

// syncDisk has the file system of a folder write what it still holds in memory.
func syncDisk(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return &os.PathError{Op: "syncfs", Path: dir, Err: err}
	}
	return nil
}

// Device is the name of the block device under a folder, or why there is none to count on.
func Device(dir string) (string, error) {
	path, err := devicePath(dir)
	if err != nil {
		return "", err
	}
	return filepath.Base(path), nil
}

func devicePath(dir string) (string, error) {
	var st syscall.Stat_t
	if err := syscall.Stat(dir, &st); err != nil {
		return "", &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	number := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	path, err := filepath.EvalSymlinks("/sys/dev/block/" + number)
	if err != nil {
		return "", fmt.Errorf("%s is on no block device of its own: %w", dir, err)
	}
	return path, nil
}

// deviceWritten is the bytes that the device under a folder has written since boot; negative where
// that is not known. It counts everybody's.
func deviceWritten(dir string) float64 {
	path, err := devicePath(dir)
	if err != nil {
		return -1
	}
	data, err := os.ReadFile(filepath.Join(path, "stat"))
	fields := strings.Fields(string(data))
	if err != nil || len(fields) < 7 {
		return -1
	}
	sectors, err := strconv.ParseFloat(fields[6], 64)
	if err != nil {
		return -1
	}
	return sectors * 512 // Documentation/block/stat.rst of the kernel
}
