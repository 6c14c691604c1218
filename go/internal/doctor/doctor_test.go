package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// today is when the hosts of these tests are looked at.
var today = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// world is a host that is not there, and what a config wants of it. It starts healthy.
type world struct {
	files  map[string]string // of proc and sys
	spaces map[string]Space  // by folder, the nearest above counts
	Options
}

func healthy() *world {
	w := &world{
		files: map[string]string{
			"proc/sys/kernel/osrelease":                    "6.12.1-amd64\n",
			"proc/sys/kernel/io_uring_disabled":            "0\n",
			"proc/sys/net/ipv4/tcp_available_ulp":          "espintcp mptcp tls\n",
			"proc/sys/net/ipv4/ip_unprivileged_port_start": "1024\n",
			"proc/self/status":                             "CapEff:\t0000000000000000\nSeccomp:\t0\n",
			"proc/self/limits":                             limits("unlimited", "1048576"),
			"proc/sys/kernel/seccomp/actions_avail":        "kill_process errno user_notif log allow\n",
			"proc/self/cgroup":                             "0::/system.slice/sluice.service\n",
			"proc/self/mounts":                             "/dev/vda / ext4 rw\ntmpfs /dev/shm tmpfs rw\n",
			"proc/meminfo":                                 "MemTotal: 8 kB\nMemAvailable:    4194304 kB\n",
			"proc/swaps":                                   "Filename Type Size Used Priority\n",
			"sys/kernel/btf/vmlinux":                       "",
		},
		spaces: map[string]Space{
			"/":        {Kind: "ext4", Total: 100 << 30, Free: 50 << 30},
			"/dev/shm": {Kind: "tmpfs", Total: 4 << 30, Free: 4 << 30},
		},
	}
	w.Options = Options{
		DataDir: "/var/lib/sluice", ShmDir: "/dev/shm/sluice", Workers: 2, RingSize: 64 << 20,
		MaxConnections: 20000, Addresses: []string{"127.0.0.1:8080"},
		Certificates: []Certificate{{File: "tls.crt", Names: []string{"a.example"},
			NotBefore: today.Add(-time.Hour), NotAfter: today.Add(60 * 24 * time.Hour)}},
		Driver: "auto", Sandbox: "auto", User: "nobody",
	}
	w.Host = Host{
		Space: func(folder string) (Space, error) {
			for ; ; folder = filepath.Dir(folder) {
				if s, found := w.spaces[folder]; found {
					return s, nil
				}
			}
		},
		Lock:   func() error { return nil },
		Write:  func(string) error { return nil },
		Direct: func(string) error { return nil },
		Bind:   func(string, string) error { return nil },
		Synced: func() (bool, error) { return true, nil },

		Landlock: func() int { return 6 },
		User:     func() int { return 1000 },
		Now:      func() time.Time { return today },
	}
	return w
}

func limits(locked, files string) string {
	return "Limit                     Soft Limit           Hard Limit           Units\n" +
		"Max open files            1024                 " + files + "              files\n" +
		"Max locked memory         65536                " + locked + "            bytes\n"
}

func (w *world) look(t *testing.T) []Finding {
	t.Helper()
	root := t.TempDir()
	for name, text := range w.files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.Host.Root = root
	w.Host.Exists = func(path string) bool {
		if strings.HasPrefix(path, root) {
			_, err := os.Stat(path)
			return err == nil
		}
		_, found := w.spaces[path]
		return found
	}
	return Run(context.Background(), w.Options)
}

func (w *world) find(t *testing.T, name string) Finding {
	t.Helper()
	found := w.look(t)
	i := slices.IndexFunc(found, func(f Finding) bool { return f.Name == name })
	if i < 0 {
		t.Fatalf("no finding %q in %+v", name, found)
	}
	return found[i]
}

func TestAHealthyHostHasNothingToMend(t *testing.T) {
	found := healthy().look(t)
	for _, f := range found {
		if f.Level != OK || f.Mend != "" || f.Detail == "" {
			t.Errorf("got %+v", f)
		}
	}
	if Worst(found) != OK {
		t.Errorf("the worst is %s", Worst(found))
	}
}

func landlockOf(version int, sandbox string) func(*world) {
	return func(w *world) {
		w.Host.Landlock, w.Sandbox = func() int { return version }, sandbox
	}
}

func rootWith(capabilities, sandbox string) func(*world) {
	return func(w *world) {
		w.Host.User, w.Sandbox = func() int { return 0 }, sandbox
		w.files["proc/self/status"] = "CapEff:\t" + capabilities + "\n"
	}
}

func tls(change func(*Certificate)) func(*world) {
	return func(w *world) { change(&w.Certificates[0]) }
}

// TestEachTroubleIsFound makes one thing worse at a time: that finding alone changes.
func TestEachTroubleIsFound(t *testing.T) {
	probes := func(out string, err error) func(*world) {
		return func(w *world) {
			w.Dataplane = "/bin/sluice-dataplane"
			w.Host.Probe = func(context.Context, string) ([]byte, error) { return []byte(out), err }
		}
	}
	file := func(name, text string) func(*world) {
		return func(w *world) { w.files[name] = text }
	}
	space := func(folder string, s Space) func(*world) {
		return func(w *world) { w.spaces[folder] = s }
	}
	bind := func(err error) func(*world) {
		return func(w *world) {
			w.Host.Bind = func(string, string) error { return &net.OpError{Op: "listen", Err: err} }
		}
	}
	const port = "port 127.0.0.1:8080"
	for _, c := range []struct {
		trouble string
		make    func(*world)
		finding string
		level   Level
		says    string // in the detail or the mend
	}{
		{"an old kernel", file("proc/sys/kernel/osrelease", "5.10.0\n"), "kernel", Warn, "epoll"},
		{"no version", file("proc/sys/kernel/osrelease", "unknown"), "kernel", Warn, "/proc"},
		{"io_uring off", file("proc/sys/kernel/io_uring_disabled", "2"), "io_uring", Warn,
			"kernel.io_uring_disabled is 2"},
		{"no way round io_uring", func(w *world) {
			w.Driver = "io_uring"
			w.files["proc/sys/kernel/io_uring_disabled"] = "2"
		}, "io_uring", Fail, "auto would take epoll"},
		{"io_uring for a group", file("proc/sys/kernel/io_uring_disabled", "1"), "io_uring", Warn,
			"epoll"},
		{"a filter", file("proc/self/status", "CapEff:\t0\nSeccomp:\t2\n"), "io_uring", Warn, "seccomp"},
		{"the probe takes epoll", probes(`{"backend":"epoll","refusal":"setup: EPERM"}`, nil),
			"io_uring", Warn, "epoll path: setup: EPERM"},
		{"the probe finds no way", probes(`{"backend":"none","refusal":"EPERM"}`, errors.New("exit 1")),
			"io_uring", Fail, "cannot run here: EPERM"},
		{"the probe fails without a word", probes(`{}`, errors.New("exit 1")), "io_uring", Fail,
			"exit 1"},
		{"the probe says nothing", probes(`{}`, nil), "io_uring", Fail, "names no backend"},
		{"the probe is another program", probes("hello", nil), "io_uring", Fail, "invalid character"},
		{"the probe dies", probes("", errors.New("exit status 1")), "io_uring", Fail, "exit status 1"},
		{"no memory for a ring", file("proc/self/limits", limits("65536", "1048576")), "memlock", Warn,
			"epoll path"},
		{"little memory for a ring", file("proc/self/limits", limits("1048576", "1048576")), "memlock",
			Warn, "smaller"},
		{"locking refused", func(w *world) { w.Host.Lock = func() error { return syscall.EPERM } },
			"memlock", Warn, "not permitted"},
		{"few files", file("proc/self/limits", limits("unlimited", "4096")), "open files", Warn,
			"LimitNOFILE=21536"},
		{"hardly a file", file("proc/self/limits", limits("unlimited", "256")), "open files", Fail,
			"LimitNOFILE=21536"},
		{"a container's shm", space("/dev/shm", Space{"tmpfs", 64 << 20, 64 << 20}), "shm_dir", Fail,
			"--shm-size"},
		{"shm for one generation", space("/dev/shm", Space{"tmpfs", 200 << 20, 200 << 20}), "shm_dir",
			Warn, "upgrade"},
		{"shm on a disk", space("/dev/shm", Space{"ext4", 9 << 30, 9 << 30}), "shm_dir", Fail, "tmpfs"},
		{"a small control group", file("sys/fs/cgroup/system.slice/sluice.service/memory.max",
			"104857600\n"), "memory", Fail, "control group gives 100 MiB"},
		{"a tight control group", file("sys/fs/cgroup/memory.max", "209715200\n"), "memory", Warn,
			"200 MiB"},
		{"little memory", file("proc/meminfo", "MemAvailable: 1024 kB\n"), "memory", Fail, "1 MiB"},
		{"an unkept clock", func(w *world) {
			w.Host.Synced = func() (bool, error) { return false, nil }
		}, "clock", Warn, "chrony"},
		{"data in memory", space("/var/lib/sluice", Space{"tmpfs", 9 << 30, 9 << 30}), "data_dir", Fail,
			"power loss"},
		{"data on a share", space("/var/lib", Space{"nfs", 9 << 30, 9 << 30}), "data_dir", Warn, "nfs"},
		{"data in a container", space("/", Space{"overlay", 9 << 30, 9 << 30}), "data_dir", Warn,
			"volume"},
		{"a full disk", space("/", Space{"ext4", 9 << 30, 9 << 20}), "data space", Fail, "9 MiB"},
		{"a filling disk", space("/", Space{"ext4", 9 << 30, 500 << 20}), "data space", Warn, "500 MiB"},
		{"a port in use", bind(syscall.EADDRINUSE), port, Fail, "taken"},
		{"a port of root", bind(syscall.EACCES), port, Fail, "another port"},
		{"a probe that finds no ring for a driver that insists", func(w *world) {
			w.Driver = "io_uring"
			probes(`{"backend":"epoll","refusal":"setup: EPERM"}`, nil)(w)
		}, "io_uring", Fail, "setup: EPERM"},
		{"a sandbox that is off", func(w *world) { w.Sandbox = "off" }, "sandbox", Warn, "off"},
		{"no Landlock", landlockOf(0, "auto"), "sandbox", Warn, "lacks Landlock"},
		{"no Landlock where it must be", landlockOf(0, "require"), "sandbox", Fail,
			"does not start with sandbox: require"},
		{"no filters", file("proc/sys/kernel/seccomp/actions_avail", "log allow"), "sandbox", Warn,
			"seccomp filters"},
		{"root that cannot become another", rootWith("0000000000000000", "auto"), "user", Warn,
			"CAP_SETUID"},
		{"root that must become another", rootWith("0000000000000080", "require"), "user", Fail,
			"CAP_SETGID"},
		{"a broken certificate", tls(func(c *Certificate) { c.Problem = errors.New("no pair") }),
			"certificate tls.crt", Fail, "no pair"},
		{"an expired certificate", tls(func(c *Certificate) { c.NotAfter = today }),
			"certificate tls.crt", Fail, "expired on 2026-03-01"},
		{"a certificate of tomorrow", tls(func(c *Certificate) { c.NotBefore = today.Add(time.Hour) }),
			"certificate tls.crt", Fail, "begins on 2026-03-01"},
		{"a certificate that nobody renewed", tls(func(c *Certificate) {
			c.NotAfter = today.Add(13*24*time.Hour + time.Hour)
		}), "certificate tls.crt", Warn, "in 13 days"},
		{"a certificate for nobody", tls(func(c *Certificate) { c.Names = nil }),
			"certificate tls.crt", Warn, "subjectAltName"},
		{"a foreign address", bind(syscall.EADDRNOTAVAIL), port, Fail, "not an address of this host"},
		{"a broken address", bind(errors.New("no such thing")), port, Fail, "no such thing"},
	} {
		w := healthy()
		c.make(w)
		for _, f := range w.look(t) {
			switch {
			case f.Name == c.finding && (f.Level != c.level || f.Mend == "" ||
				!strings.Contains(f.Detail+f.Mend, c.says)):
				t.Errorf("%s: want %s with %q, got %+v", c.trouble, c.level, c.says, f)
			case f.Name != c.finding && f.Level != OK:
				t.Errorf("%s: it has another trouble too: %+v", c.trouble, f)
			}
		}
	}
}

func TestWhatIsNoTroubleSaysWhichPathIsTaken(t *testing.T) {
	for _, c := range []struct {
		make    func(*world)
		finding string
		says    string
	}{
		{func(w *world) {
			w.Dataplane = "x"
			w.Host.Probe = func(context.Context, string) ([]byte, error) {
				return []byte(`{"backend":"uring","lacking":["gathering waits"],"more":1}`), nil
			}
		}, "io_uring", "without gathering waits"},
		{func(w *world) { delete(w.files, "proc/sys/kernel/io_uring_disabled") }, "io_uring",
			"no switch"},
		{func(w *world) {
			w.files["proc/sys/kernel/io_uring_disabled"] = "1"
			w.files["proc/self/status"] = "CapEff:\t0000000000200000\n"
		}, "io_uring", "may pass"},
		{func(w *world) { w.files["proc/self/limits"] = limits("67108864", "1048576") }, "memlock",
			"too little to lock"},
		{func(w *world) { w.files["proc/self/limits"] = limits("1073741824", "unlimited") },
			"open files", "unlimited"},
		{func(w *world) { delete(w.files, "sys/kernel/btf/vmlinux") }, "bpf", "BTF"},
		{func(w *world) { w.files["proc/self/status"] = "CapEff:\t000001ffffffffff\n" }, "bpf", "loaded"},
		{func(w *world) { w.files["proc/sys/net/ipv4/tcp_available_ulp"] = "mptcp" }, "ktls", "modprobe"},
		{func(w *world) { w.Host.Direct = func(string) error { return syscall.EINVAL } }, "direct io",
			"page cache"},
		{func(w *world) {
			w.Host.Synced = func() (bool, error) { return false, syscall.EPERM }
		}, "clock", "does not say"},
		{func(w *world) {
			w.Running = true
			w.Host.Bind = func(string, string) error { return syscall.EADDRINUSE }
			w.spaces["/dev/shm"] = Space{"tmpfs", 4 << 30, 0}
		}, "port 127.0.0.1:8080", "daemon runs"},
		{func(w *world) { w.Addresses = []string{"unix:/run/sluice/in.sock"} },
			"socket /run/sluice/in.sock", "can be made"},
		{func(w *world) { w.Addresses = []string{"systemd:web"} }, "socket systemd:web",
			"FileDescriptorName=web"},
		{func(w *world) {
			w.Driver = "epoll"
			w.files["proc/sys/kernel/io_uring_disabled"] = "2"
		}, "io_uring", "not used"},
		{func(w *world) {
			w.Driver = "epoll"
			w.files["proc/self/limits"] = limits("65536", "1048576")
		}, "memlock", "epoll needs none"},
		{func(w *world) {
			w.Driver = "epoll"
			w.files["proc/sys/kernel/osrelease"] = "5.10.0\n"
		}, "kernel", "Linux 5.10.0"},
		{landlockOf(3, "require"), "sandbox", "without rules for TCP"},
		{landlockOf(6, "require"), "sandbox", "files and TCP"},
		{rootWith("00000000000000c0", "require"), "user", "becomes nobody"},
		{tls(func(c *Certificate) { c.Names = strings.Split("abcdefg", "") }), "certificate tls.crt",
			"a, b, c, d, e, … until 2026-04-30"},
	} {
		w := healthy()
		c.make(w)
		if f := w.find(t, c.finding); f.Level != OK || !strings.Contains(f.Detail, c.says) {
			t.Errorf("want ok with %q, got %+v", c.says, f)
		}
	}
}

func TestSwapMattersOnlyWhereLanesCanGo(t *testing.T) {
	swapped := func() *world {
		w := healthy()
		w.files["proc/swaps"] = "Filename Type Size Used Priority\n/dev/vdb partition 1024 0 -2\n"
		w.files["proc/self/limits"] = limits("8388608", "1048576")
		return w
	}
	if f := swapped().find(t, "swap"); f.Level != Warn || f.Mend == "" {
		t.Errorf("got %+v", f)
	}
	for name, file := range map[string][2]string{
		"no swap for the group": {"sys/fs/cgroup/system.slice/sluice.service/memory.swap.max", "0\n"},
		"a tmpfs that stays":    {"proc/self/mounts", "tmpfs /dev/shm tmpfs rw,noswap 0 0\n"},
		"enough to lock":        {"proc/self/limits", limits("unlimited", "1048576")},
	} {
		w := swapped()
		w.files[file[0]] = file[1]
		if f := w.find(t, "swap"); f.Level != OK {
			t.Errorf("%s: got %+v", name, f)
		}
	}
}

func TestAFolderThatCannotBeWrittenIsAFailure(t *testing.T) {
	w := healthy()
	w.Host.Write = func(folder string) error {
		return &os.PathError{Op: "open", Path: folder, Err: syscall.EROFS}
	}
	for _, name := range []string{"data_dir", "shm_dir"} {
		if f := w.find(t, name); f.Level != Fail || !strings.Contains(f.Detail, "read-only") {
			t.Errorf("got %+v", f)
		}
	}
}

func TestFindingsPrintAlignedWithTheMendBelow(t *testing.T) {
	var out bytes.Buffer
	err := Print(&out, []Finding{
		good("kernel", "Linux 6.12"), bad(Warn, "shm", "mount more", "too small"),
	})
	want := "ok    kernel  Linux 6.12\nwarn  shm     too small\n              -> mount more\n"
	if err != nil || out.String() != want {
		t.Errorf("want\n%s\ngot\n%s, %v", want, out.String(), err)
	}
	if text, err := json.Marshal(good("a", "b")); string(text) !=
		`{"name":"a","level":"ok","detail":"b"}` || err != nil {
		t.Errorf("got %s, %v", text, err)
	}
}

func TestThisHostIsLookedAtWithoutATrace(t *testing.T) {
	data := t.TempDir()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	found := Run(context.Background(), Options{
		DataDir: filepath.Join(data, "not", "yet"), ShmDir: filepath.Join(data, "shm"), Workers: 1,
		RingSize: 1 << 20, MaxConnections: 10,
		Addresses: []string{taken.Addr().String(), "127.0.0.1:0"},
	})
	level := map[string]Level{}
	for _, f := range found {
		level[f.Name] = f.Level
		t.Logf("%+v", f)
	}
	if level["port "+taken.Addr().String()] != Fail || level["port 127.0.0.1:0"] != OK {
		t.Errorf("ports: %v", level)
	}
	if left, err := os.ReadDir(data); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestAProgramThatFailsItsProbeIsQuoted(t *testing.T) {
	program := filepath.Join(t.TempDir(), "dataplane")
	script := "#!/bin/sh\n[ \"$1\" = --probe ] || exit 9\necho no such option >&2\nexit 3\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	o := Options{Dataplane: program}
	f := probed(context.Background(), Host{}.complete(), o)
	if f.Level != Fail || !strings.Contains(f.Detail, "exit status 3: no such option") {
		t.Errorf("got %+v", f)
	}
	script = "#!/bin/sh\necho '{\"backend\":\"uring\"}'\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if f := probed(context.Background(), Host{}.complete(), o); f.Level != OK {
		t.Errorf("got %+v", f)
	}
}

func TestMemoryIsTheLesserOfHostAndControlGroup(t *testing.T) {
	const group = "sys/fs/cgroup/system.slice/sluice.service/memory.max"
	for limit, want := range map[string]int64{"max\n": 8 << 10, "4096\n": 4096, "1048576\n": 8 << 10} {
		w := healthy()
		w.files[group] = limit
		w.look(t)
		if got, found := w.Host.Memory(); !found || got != want {
			t.Errorf("with a limit of %q: %d bytes (%v), want %d", limit, got, found, want)
		}
	}
}
