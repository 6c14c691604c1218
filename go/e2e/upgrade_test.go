package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// command runs a command of sluice that has to go well, and gives what it printed.
func (i *installation) command(args ...string) (stdout, stderr string) {
	i.t.Helper()
	out, errs, code := i.run(args...)
	if code != 0 {
		i.t.Fatalf("sluice %s exits with %d: %s%s", strings.Join(args, " "), code, out, errs)
	}
	return out, errs
}

// settled waits until one data plane is left, of a generation.
func (i *installation) settled(generation uint32) {
	i.t.Helper()
	eventually(i.t, fmt.Sprintf("data plane %d serves alone", generation), func() bool {
		s := i.status()
		return s.GetReady() && s.GetGeneration() == generation && len(i.planes()) == 1
	})
}

// varied is a config of two sources with something that changes from one reload to the next.
func varied(n int) string {
	text := "sources:\n" + githubSource("ring", "ring", "") + githubSource("durable", "durable", "")
	switch n % 3 {
	case 0: // a route
		text += fmt.Sprintf("  extra%d: {path: /hooks/extra, provider: none, deliver: []}\n", n)
	case 1: // a secret
		text = strings.ReplaceAll(text, fmt.Sprintf("[%q]", secret),
			fmt.Sprintf("[%q, \"the secret of turn %d\"]", secret, n))
	default: // a bound
		text = fmt.Sprintf("http: {max_header: %dKiB, idle_timeout: %ds}\n", 16+n%16, 30+n) + text
	}
	return text
}

func TestUpgradesAndReloadsFailNoRequest(t *testing.T) {
	random := seeded(t)
	i := install(t, varied(0))
	i.start()
	s := keepSending(i, random, 3, 1, "ring", "durable")
	upgrades, reloads := count(5, 20), count(20, 100)
	for n := range upgrades {
		for range reloads / upgrades {
			s.loaded(10)
			i.configure(varied(1 + random.IntN(1000)))
			i.command("reload")
		}
		s.loaded(50)
		out, steps := i.command("upgrade", "--json")
		var done struct{ Generation int }
		must(t, json.Unmarshal([]byte(out), &done))
		if done.Generation != n+2 || !strings.Contains(steps, fmt.Sprintf("data plane %d accepts", n+2)) {
			t.Errorf("upgrade %d says %s after %q", n, out, steps)
		}
	}
	s.loaded(50)
	s.end()
	s.holds(t)
	i.settled(uint32(upgrades) + 1)
	version := uint32(1 + upgrades*(reloads/upgrades))
	if st := i.status(); st.GetDataplane().GetRestarts() != 0 || st.GetConfigVersion() != version {
		t.Errorf("status %v, want config %d", st, version)
	}
	if lanes, planes := i.files(t); lanes != 1 || planes != 1 {
		t.Errorf("%d lanes and %d counters are left", lanes, planes)
	}
}

func TestAnUpgradeOfTheProgramFailsNoRequest(t *testing.T) {
	random := seeded(t)
	to := newSink(t)
	i := install(t, both(to))
	i.env = []string{"LISTEN_FDS=0", "LISTEN_FDNAMES="}
	i.start()
	s := keepSending(i, random, 3, 1, "ring", "durable")
	pid, plane := i.control.Process.Pid, i.plane()
	s.loaded(50)
	fresh, signals := i.held(t), signalsOf(t, plane)
	for range count(3, 10) {
		s.loaded(100)
		out, _ := i.command("upgrade", "--control")
		if !strings.Contains(out, "is ready") || i.exited() {
			t.Fatalf("%q, it ended: %v", out, i.exited())
		}
		if got := i.plane(); got != plane {
			t.Errorf("data plane %d became %d", plane, got)
		}
	}
	s.loaded(100)
	if got := i.held(t); fmt.Sprint(got) != fmt.Sprint(fresh) {
		t.Errorf("it holds %v, at first %v", got, fresh)
	}
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	must(t, err)
	if strings.Contains(string(environment), "LISTEN_FDS") {
		t.Error("what systemd passed was passed on")
	}
	// It is the parent of the data plane, which it did not start.
	i.configure(both(to) + "http: {max_header: 16KiB}\n")
	i.signal(syscall.SIGHUP)
	eventually(t, "SIGHUP is heard", func() bool { return i.status().GetConfigVersion() >= 2 })
	i.command("upgrade")
	i.settled(2)
	if got := signalsOf(t, i.plane()); got != signals {
		t.Errorf("its children have the signals %s, before %s", got, signals)
	}
	s.loaded(50)
	s.end()
	s.holds(t)
	must(t, syscall.Kill(i.plane(), syscall.SIGKILL))
	i.settled(3)
	eventually(t, "no dead child is left", func() bool { return len(i.zombies()) == 0 })
	i.awaitDelivered()
	i.stop()
	if left := i.planes(); len(left) > 0 {
		t.Errorf("data planes %v outlive an orderly stop", left)
	}
}

// signalsOf are the signals that a process blocks and ignores, which it inherits.
func signalsOf(t testing.TB, pid int) string {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	found := ""
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "SigBlk:") || strings.HasPrefix(line, "SigIgn:") {
			found += strings.TrimSpace(line) + " "
		}
	}
	return found
}

func TestOtherWorkersAndAddressesFailNoRequest(t *testing.T) {
	random := seeded(t)
	text := "sources:\n" + githubSource("ring", "ring", "") + githubSource("durable", "durable", "")
	i := install(t, "workers: 1\n"+text)
	second := freeAddress(t)
	i.start()
	s := keepSending(i, random, 2, 2, "ring", "durable")
	both := fmt.Sprintf("listeners: [{address: '%s'}, {address: '%s'}]\n", i.address, second)
	for n, config := range []string{
		"workers: 3\n" + text, "workers: 2\n" + text, "workers: 2\n" + both + text,
		"workers: 2\nring_size: 16MiB\n" + text,
	} {
		s.loaded(50)
		i.configure(config)
		i.command("reload")
		if g := i.status().GetGeneration(); g != uint32(n)+2 {
			t.Errorf("generation %d behind reload %d", g, n)
		}
		// A data plane that finishes accepts nothing new, a moment later.
		eventually(t, "the second address is there, or not", func() bool {
			w, err := connect(second)
			if err == nil {
				_ = w.conn.Close()
			}
			return (err == nil) == strings.Contains(config, second)
		})
	}
	s.loaded(50)
	s.end()
	s.holds(t)
}

func TestKillsDuringUpgradesLoseNothingAndRefuseNobody(t *testing.T) {
	random := seeded(t)
	to := newSink(t)
	i := install(t, "workers: 2\n"+both(to))
	i.start()
	f := begin(i, random, 2, "ring", "durable")
	refused := refusals(i)
	for round := range count(9, 40) {
		f.loaded(1 + random.IntN(50))
		old := i.planes()
		what, args := (round+random.IntN(2))%3, []string{"upgrade"}
		if what == 0 && random.IntN(2) == 0 {
			args = append(args, "--control")
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _, _ = i.run(args...) // it may fail
		}()
		time.Sleep(time.Duration(random.IntN(250)) * time.Millisecond) // any moment will do
		// One of them: the sockets are open as long as one process has them.
		switch what {
		case 0:
			t.Logf("round %d: kill the control plane in %v", round, args)
			i.killControl()
			i.start()
		default:
			for _, pid := range i.planes() {
				if isOld := slices.Contains(old, pid); isOld == (what == 1) {
					t.Logf("round %d: kill data plane %d, old: %v", round, pid, isOld)
					_ = syscall.Kill(pid, syscall.SIGKILL) // ESRCH: it ended
					break
				}
			}
		}
		<-ended
		eventually(t, "one data plane serves", func() bool {
			return i.readyz() == 200 && len(i.planes()) == 1
		})
	}
	f.loaded(50)
	if err := refused(); err != nil {
		t.Error(err)
	}
	f.end()
	f.holds(t, to)
}

func TestADataPlaneThatDiesBetweenTwoProgramsIsReplaced(t *testing.T) {
	random := seeded(t)
	to := newSink(t)
	i := install(t, "workers: 2\n"+both(to))
	i.start()
	f := begin(i, random, 2, "ring", "durable")
	for range count(4, 20) {
		f.loaded(1 + random.IntN(50))
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _, _ = i.run("upgrade", "--control") // it may fail
		}()
		time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond) // any moment will do
		i.killPlanes()
		<-ended
		eventually(t, "one data plane serves", func() bool {
			return i.readyz() == 200 && len(i.planes()) == 1
		})
		if i.exited() {
			t.Fatal("the control plane ended")
		}
	}
	f.loaded(50)
	f.end()
	f.holds(t, to)
	eventually(t, "no dead child is left", func() bool { return len(i.zombies()) == 0 })
}

// zombies are dead children of the control plane that it did not look after.
func (i *installation) zombies() (pids []string) {
	entries, err := os.ReadDir("/proc")
	must(i.t, err)
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			continue // no process, or it ended meanwhile
		}
		fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
		if fields[0] == "Z" && fields[1] == fmt.Sprint(i.control.Process.Pid) {
			pids = append(pids, entry.Name())
		}
	}
	return pids
}

// put puts a program or a script at a path, as a package manager does.
func put(t testing.TB, path string, content []byte) {
	t.Helper()
	must(t, os.WriteFile(path+".next", content, 0o755))
	must(t, os.Rename(path+".next", path))
}

func readAll(t testing.TB, path string) []byte {
	t.Helper()
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	content, err := io.ReadAll(file)
	must(t, err)
	return content
}

func TestABrokenDataPlaneLeavesTheOldOneServing(t *testing.T) {
	random := seeded(t)
	i := install(t, varied(0))
	good := readAll(t, program(t, "sluice-dataplane"))
	path := filepath.Join(i.dir, "sluice-dataplane")
	put(t, path, good)
	must(t, os.Chmod(i.dir, 0o755))
	i.start("--dataplane", path)
	s := keepSending(i, random, 2, 1, "ring", "durable")
	plane := i.plane()
	for _, broken := range []struct{ name, script, says string }{
		{"it fails", "#!/bin/sh\nexit 1\n", "--version"},
		{"it says nothing", "#!/bin/sh\n", "not a data plane"},
		{"it is no program", "nonsense", "exec format error"},
		{"it is another version", "#!/bin/sh\necho 'sluice-dataplane 9.9 (layout 0000000000000001)'\n",
			"9.9"},
		{"it ends at once", "#!/bin/sh\n[ $1 = --version ] && exec '" + program(t, "sluice-dataplane") +
			"' $1\nexit 7\n", "exit status 7"},
		{"it hangs", "#!/bin/sh\nsleep 60\n", "does not answer --version"},
	} {
		s.loaded(20)
		put(t, path, []byte(broken.script))
		out, errs, code := i.run("upgrade")
		if code != 1 || !strings.Contains(errs, broken.says) || out != "" {
			t.Errorf("%s: exit code %d, %q, %s", broken.name, code, out, errs)
		}
		if got := i.plane(); got != plane || !i.status().GetReady() {
			t.Errorf("%s: data plane %d became %d", broken.name, plane, got)
		}
	}
	s.loaded(20)
	s.end()
	s.holds(t)
	// What served before mends its own death, whatever lies at the path now.
	must(t, syscall.Kill(plane, syscall.SIGKILL))
	eventually(t, "another one serves", func() bool {
		return i.readyz() == 200 && len(i.planes()) == 1 && i.plane() != plane
	})
	put(t, path, good)
	i.command("upgrade")
	i.accepted(github("/hooks/durable", "d-1", "{}"))
}

func TestABrokenProgramDoesNotTakeOver(t *testing.T) {
	random := seeded(t)
	cli, home := program(t, "sluice"), t.TempDir()
	must(t, os.Symlink(program(t, "sluice-dataplane"), filepath.Join(home, "sluice-dataplane")))
	put(t, filepath.Join(home, "sluice"), readAll(t, cli))
	i := install(t, varied(0))
	own := os.Getenv("SLUICE_BIN")
	t.Setenv("SLUICE_BIN", home)
	i.start()
	t.Setenv("SLUICE_BIN", filepath.Dir(cli))
	defer t.Setenv("SLUICE_BIN", own)
	s := keepSending(i, random, 2, 1, "ring", "durable")
	pid, plane := i.control.Process.Pid, i.plane()
	refuse := func(name, says string) {
		t.Helper()
		s.loaded(20)
		_, errs, code := i.run("upgrade", "--control")
		if code != 1 || !strings.Contains(errs, says) {
			t.Errorf("%s: exit code %d, %s", name, code, errs)
		}
		if i.exited() || i.plane() != plane || !i.status().GetReady() {
			t.Errorf("%s: something changed", name)
		}
	}
	for name, broken := range map[string][2]string{
		"it fails":             {"#!/bin/sh\nexit 1\n", "exit status 1"},
		"it is something else": {"#!/bin/sh\necho hello\n", "is no sluice"},
		"it has another layout": {"#!/bin/sh\necho '{\"version\":\"9.9\",\"layout\":\"1\"}'\n",
			"layout 1"},
	} {
		put(t, filepath.Join(home, "sluice"), []byte(broken[0]))
		refuse(name, broken[1])
	}
	put(t, filepath.Join(home, "sluice"), readAll(t, cli))
	text := readAll(t, i.config)
	i.configure("nonsense: true\n" + varied(0))
	refuse("a config with a fault", "nonsense")
	must(t, os.WriteFile(i.config, []byte(strings.Replace(string(text), i.http, freeAddress(t), 1)),
		0o600))
	refuse("a key that only a restart changes", "admin.http")
	must(t, os.WriteFile(i.config, text, 0o600))
	i.command("upgrade", "--control")
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	must(t, err)
	if exe != filepath.Join(home, "sluice") || i.exited() {
		t.Errorf("%s runs", exe)
	}
	s.loaded(20)
	s.end()
	s.holds(t)
}
