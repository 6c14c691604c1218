package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Host is what the doctor learns from. Each nil field is this host's own.
type Host struct {
	Root string // where proc and sys are mounted; empty: /

	Space  func(folder string) (Space, error)
	Lock   func() error                                  // locks one page of memory
	Write  func(folder string) error                     // makes and removes a file
	Direct func(folder string) error                     // writes a block past the page cache
	Bind   func(network, address string) error           // listens and lets go
	Synced func() (bool, error)                          // is the clock kept by a time service
	Exists func(path string) bool                        // is there such a file or folder
	Probe  func(context.Context, string) ([]byte, error) // runs PROGRAM --probe
	// Landlock is the version of that interface, 0 where the kernel has none.
	Landlock func() int
	User     func() int       // the effective uid of this process
	Now      func() time.Time // nil: time.Now
}

// Space is what a file system says of itself.
type Space struct {
	Kind  string // tmpfs, ext4, …; hexadecimal when not known by name
	Total int64
	Free  int64 // for those who are not root
}

// probeTimeout bounds a data plane that hangs over its own probe.
const probeTimeout = 15 * time.Second

func (h Host) complete() Host {
	if h.Root == "" {
		h.Root = "/"
	}
	if h.Space == nil {
		h.Space = space
	}
	if h.Lock == nil {
		h.Lock = lockPage
	}
	if h.Write == nil {
		h.Write = writeFile
	}
	if h.Direct == nil {
		h.Direct = writeDirect
	}
	if h.Bind == nil {
		h.Bind = bind
	}
	if h.Synced == nil {
		h.Synced = clockSynced
	}
	if h.Exists == nil {
		h.Exists = func(path string) bool { _, err := os.Stat(path); return err == nil }
	}
	if h.Probe == nil {
		h.Probe = probe
	}
	if h.Landlock == nil {
		h.Landlock = landlock
	}
	if h.User == nil {
		h.User = os.Geteuid
	}
	if h.Now == nil {
		h.Now = time.Now
	}
	return h
}

// read gives a file of proc or sys as text, without the white space around it.
func (h Host) read(name string) (string, bool) {
	text, err := os.ReadFile(filepath.Join(h.Root, name))
	return strings.TrimSpace(string(text)), err == nil
}

// limit reads one line of /proc/self/limits; unlimited is -1.
func (h Host) limit(name string) (soft, hard int64, found bool) {
	text, _ := h.read("proc/self/limits")
	for line := range strings.Lines(text) {
		rest, is := strings.CutPrefix(line, name)
		fields := strings.Fields(rest)
		if !is || len(fields) < 2 {
			continue
		}
		return limitValue(fields[0]), limitValue(fields[1]), true
	}
	return 0, 0, false
}

func limitValue(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// Numbers of capabilities, from the kernel's capability.h.
const (
	capSetGID   = 6
	capSetUID   = 7
	capNetAdmin = 12
	capIPCLock  = 14
	capSysAdmin = 21
	capBPF      = 39
)

// can tells whether this process has a capability in effect.
func (h Host) can(capability uint) bool {
	text, _ := h.read("proc/self/status")
	for line := range strings.Lines(text) {
		if rest, is := strings.CutPrefix(line, "CapEff:"); is {
			set, err := strconv.ParseUint(strings.TrimSpace(rest), 16, 64)
			return err == nil && set&(1<<capability) != 0
		}
	}
	return false
}

// existing is the nearest folder above a path, or the path, that is there.
func (h Host) existing(path string) string {
	for !h.Exists(path) && path != "/" && path != "." {
		path = filepath.Dir(path)
	}
	return path
}

var kinds = map[int64]string{
	0x01021994: "tmpfs", 0x858458f6: "ramfs", 0xEF53: "ext4", 0x58465342: "xfs",
	0x9123683E: "btrfs", 0xF2F52010: "f2fs", 0x2fc12fc1: "zfs", 0x794c7630: "overlay",
	0x6969: "nfs", 0xFF534D42: "cifs", 0xFE534D42: "smb", 0x65735546: "fuse", 0x01021997: "9p",
}

func space(folder string) (Space, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return Space{}, err
	}
	// Some platforms sign the magic number.
	kind, known := kinds[int64(s.Type)&0xffffffff]
	if !known {
		kind = fmt.Sprintf("%#x", uint32(s.Type))
	}
	size := int64(s.Bsize)
	return Space{Kind: kind, Total: int64(s.Blocks) * size, Free: int64(s.Bavail) * size}, nil
}

const pageSize = 4096

// page maps one page of memory, which is aligned for direct I/O.
func page() ([]byte, error) {
	return syscall.Mmap(-1, 0, pageSize, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON)
}

func lockPage() error {
	memory, err := page()
	if err != nil {
		return err
	}
	defer syscall.Munmap(memory)
	return syscall.Mlock(memory)
}

func writeFile(folder string) error {
	file, err := os.CreateTemp(folder, ".sluice-doctor-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = file.WriteString("sluice")
	return errors.Join(err, file.Close())
}

func writeDirect(folder string) error {
	file, err := os.CreateTemp(folder, ".sluice-doctor-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if err := file.Close(); err != nil {
		return err
	}
	direct, err := os.OpenFile(file.Name(), os.O_WRONLY|syscall.O_DIRECT, 0)
	if err != nil {
		return err
	}
	block, err := page()
	if err != nil {
		return errors.Join(err, direct.Close())
	}
	defer syscall.Munmap(block)
	_, err = direct.Write(block)
	return errors.Join(err, direct.Close())
}

// bind listens without SO_REUSEPORT, so that a port somebody else shares counts as taken.
func bind(network, address string) error {
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	listener, err := config.Listen(context.Background(), network, address)
	if err != nil {
		return err
	}
	return listener.Close()
}

func clockSynced() (bool, error) {
	const unsynchronised = 0x40 // STA_UNSYNC of adjtimex(2)
	var t syscall.Timex
	state, err := syscall.Adjtimex(&t)
	const timeError = 5 // TIME_ERROR of adjtimex(2)
	return state != timeError && t.Status&unsynchronised == 0, err
}

// landlock asks for the version (landlock_create_ruleset(2)). A kernel that has it and does not use
// it says so as one that lacks it does.
func landlock() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0,
		unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
}

func probe(ctx context.Context, program string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	command := exec.CommandContext(ctx, program, "--probe")
	command.WaitDelay = time.Second
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil && stderr.Len() > 0 {
		said := strings.TrimSpace(stderr.String())
		err = fmt.Errorf("%w: %s", err, said[:min(len(said), 300)])
	}
	return out, err
}

// bytesText is a size for people.
func bytesText(n int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.size {
			return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/float64(unit.size)), ".0") +
				" " + unit.name
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
