package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	pb "sluice/proto/sluice/v1"
)

// freeze stops the control plane where it stands, as a long pause would.
func (i *installation) freeze() {
	i.t.Helper()
	i.signal(syscall.SIGSTOP)
	eventually(i.t, "the control plane is stopped", func() bool {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", i.control.Process.Pid))
		must(i.t, err)
		behind := string(text[strings.LastIndexByte(string(text), ')')+1:])
		return strings.HasPrefix(behind, " T")
	})
}

// withSecret is a config of one source at an acknowledge level.
func withSecret(key, acknowledge string) string {
	return strings.ReplaceAll("sources:\n"+githubSource("github", acknowledge, ""),
		fmt.Sprintf("%q", secret), fmt.Sprintf("%q", key)) + "    deadline: 1s\n"
}

const noSources = "sources: {}\n"

func TestAnAcknowledgedFrameIsNotJudgedAgain(t *testing.T) {
	// Each step dies behind some 200s at ring and before their group is durable, or thereabouts.
	random := seeded(t)
	for _, next := range []struct{ name, config string }{
		{"secret rotated", withSecret("the new secret", "ring")},
		{"source removed", noSources},
		{"source renamed", strings.ReplaceAll(withSecret("x", "ring"), "github:\n", "other:\n")},
	} {
		t.Run(strings.ReplaceAll(next.name, " ", "-"), func(t *testing.T) {
			acknowledged := 0
			for _, step := range []string{
				"intake.verified:20", "commit.gathered:20", "reply.published:20", "reply.written:21",
			} {
				i := install(t, withSecret(secret, "ring"))
				i.launch("--fault-point", step)
				f := begin(i, random, 4, "github")
				eventually(t, "the process reaches the step", i.exited)
				// Until the budget ends, no answer comes; then the ledger is complete.
				f.end()
				acknowledged += f.acknowledged()
				i.configure(next.config)
				i.start()
				eventually(t, "the lane is drained", i.drained)
				f.nameless = next.name != "secret rotated"
				f.kept(t)
				i.killBoth()
			}
			if acknowledged == 0 {
				t.Error("nothing was acknowledged before any crash")
			}
		})
	}
}

func TestAFrameTold401IsNeverStored(t *testing.T) {
	for _, step := range []string{"reply.published:1", "consume.released:1"} {
		i := install(t, withSecret("another secret", "durable"))
		i.launch("--fault-point", step)
		var told *answer
		eventually(t, "the request is refused", func() bool {
			a, err := i.send(github("/hooks/github", "d-1", "{}"))
			if err == nil {
				told = a
			}
			return told != nil || i.exited()
		})
		i.awaitExit()
		i.configure(withSecret(secret, "durable"))
		i.start()
		if told != nil && told.code == 401 {
			// A later request is stored; all before it in the lane were looked at then.
			i.accepted(github("/hooks/github", "d-2", "{}"))
			if list := i.events(&pb.EventFilter{ProviderId: "d-1"}); len(list) > 0 {
				t.Errorf("%s: told %v, and stored: %v", step, told, list)
			}
		} else {
			t.Logf("%s: died before the answer", step)
		}
		i.killBoth()
	}
}

func TestAFrameThatWaitedIsJudgedByTheConfigOfNow(t *testing.T) {
	i := install(t, withSecret("another secret", "durable"))
	i.start()
	i.freeze()
	w := i.dial(t)
	must(t, w.write(github("/hooks/github", "d-1", "{}").bytes()))
	i.killControl() // the frame is in the lane, nobody judged it
	i.configure(withSecret(secret, "durable"))
	i.start()
	a, err := w.read("POST")
	must(t, err)
	if a.code != 200 {
		t.Errorf("%v, want 200: nobody was promised anything before", a)
	}
	if list := i.events(nil); len(list) != 1 {
		t.Errorf("listed: %v", list)
	}
}

func TestAReloadTakesEffectAndARefusedOneDoesNot(t *testing.T) {
	i := install(t, withSecret("old", "durable"))
	i.start()
	w := i.dial(t)
	ask := func() int { return w.ask(t, github("/hooks/github", "d", "{}")).code }
	if code := ask(); code != 401 {
		t.Fatalf("before the reload: %d", code)
	}
	i.configure(withSecret(secret, "durable"))
	if _, errs, code := i.run("reload"); code != 0 {
		t.Fatalf("reload exits with %d: %s", code, errs)
	}
	if code := ask(); code != 200 {
		t.Errorf("behind the reload, on the same connection: %d", code)
	}
	if v := i.status().GetConfigVersion(); v != 2 {
		t.Errorf("config_version %d, want 2", v)
	}

	for _, fault := range []string{
		"sources:\n  github: {path: /hooks/github, provider: github, deliver: []}\n",
		"sources:\n  github: {path: /hooks/github, provider: github, secrets: [\"\"], deliver: []}\n",
		withSecret(secret, "durable") + "sourcse: {}\n",
		"redis: {url: \"redis://127.0.0.1:1\"}\n" + withSecret(secret, "durable"),
	} {
		i.configure(fault)
		_, errs, code := i.run("reload")
		if code != 2 || strings.TrimSpace(errs) == "" {
			t.Errorf("reload of a faulty config exits with %d: %s", code, errs)
		}
		if code := ask(); code != 200 {
			t.Errorf("a refused reload changed something: %d", code)
		}
	}

	i.configure(withSecret("third", "durable"))
	i.signal(syscall.SIGHUP)
	eventually(t, "SIGHUP takes effect", func() bool { return ask() == 401 })
	if v := i.status().GetConfigVersion(); v != 3 {
		t.Errorf("config_version %d, want 3", v)
	}
	i.configure("nonsense: true\n")
	i.signal(syscall.SIGHUP)
	eventually(t, "the refusal is logged", func() bool { return i.logged("reload refused") })
	if code := ask(); code != 401 || i.status().GetConfigVersion() != 3 {
		t.Errorf("a refused SIGHUP changed something: %d", code)
	}
}

func TestAReloadWhileTheDataPlaneDiesReachesTheNextOne(t *testing.T) {
	i := install(t, withSecret(secret, "durable"))
	i.start()
	for round := range count(5, 20) {
		name := fmt.Sprintf("s%d", round)
		i.configure(fmt.Sprintf("sources:\n  %s: {path: /hooks/%s, provider: none, deliver: []}\n",
			name, name))
		i.killPlanes()
		if _, errs, code := i.run("reload"); code != 0 {
			t.Fatalf("reload exits with %d: %s", code, errs)
		}
		id := i.accepted(request{path: "/hooks/" + name, body: "{}"})
		if source := i.event(id).GetEvent().GetSource(); source != name {
			t.Errorf("an event of %s is listed as one of %s", name, source)
		}
		if a, err := i.send(github("/hooks/github", "d", "{}")); err != nil || a.code != 404 {
			t.Errorf("the source that went: %v %v", a, err)
		}
	}
}

func TestAReloadOutlastsADataPlaneThatHangs(t *testing.T) {
	if !soak {
		t.Skip("it takes as long as a data plane has to answer; runs with SLUICE_SOAK=1")
	}
	i := install(t, withSecret(secret, "durable"))
	i.start()
	i.configure("sources:\n  next: {path: /hooks/next, provider: none, deliver: []}\n")
	must(t, syscall.Kill(i.plane(), syscall.SIGSTOP))
	if _, errs, code := i.run("reload"); code != 0 {
		t.Fatalf("reload exits with %d: %s", code, errs)
	}
	i.accepted(request{path: "/hooks/next", body: "{}"})
	if g := i.status().GetGeneration(); g != 2 {
		t.Errorf("generation %d, want 2", g)
	}
}

func TestASourceComesAndGoesWithoutALostConnection(t *testing.T) {
	i := install(t, withSecret(secret, "durable"))
	i.start()
	w := i.dial(t)
	r := request{path: "/hooks/new", body: "{}"}
	if a := w.ask(t, r); a.code != 404 {
		t.Fatalf("%v", a)
	}
	more := withSecret(secret, "durable") +
		"  new: {path: /hooks/new, provider: none, deliver: []}\n"
	for range count(5, 50) {
		i.configure(more)
		if _, errs, code := i.run("reload"); code != 0 {
			t.Fatalf("reload: %d %s", code, errs)
		}
		if a := w.ask(t, r); a.code != 200 {
			t.Fatalf("the new source: %v", a)
		}
		i.configure(withSecret(secret, "durable"))
		if _, errs, code := i.run("reload"); code != 0 {
			t.Fatalf("reload: %d %s", code, errs)
		}
		if a := w.ask(t, r); a.code != 404 {
			t.Fatalf("the source that went: %v", a)
		}
	}
	if list := i.events(nil); len(list) != count(5, 50) {
		t.Errorf("%d events are listed", len(list))
	}
}

func TestAConfigFaultNamesFileAndLineAndExitsWith2(t *testing.T) {
	for _, row := range []struct{ name, text, line, word string }{
		{"unknown key", "sources:\n  a:\n    path: /a\n    provider: none\n    pth: /b\n", "5", "pth"},
		{"no secret", "sources:\n  a:\n    path: /a\n    provider: github\n", "", "secret"},
		{"a destination that is none", "sources:\n  a:\n    path: /a\n    provider: none\n" +
			"    deliver: [nowhere]\n", "5", "nowhere"},
		{"a literal secret", "sources:\n  a:\n    path: /a\n    provider: github\n" +
			"    secrets: [abc]\n", "5", "env:"},
		{"two sources of one path", "sources:\n  a: {path: /a, provider: none}\n" +
			"  b: {path: /a, provider: none}\n", "3", "/a"},
		{"not YAML", "sources: [\n", "", ""},
		{"a ring that is no power of two", "ring_size: 65MiB\n", "1", "ring_size"},
	} {
		t.Run(strings.ReplaceAll(row.name, " ", "-"), func(t *testing.T) {
			i := install(t, noSources)
			file := filepath.Join(i.dir, "faulty.yaml")
			must(t, os.WriteFile(file, []byte(row.text), 0o600))
			for _, args := range [][]string{{"check", file}, {"run", "--config", file}} {
				out, errs, code := i.run(args...)
				errs += out // where check lists them
				if code != 2 {
					t.Errorf("sluice %s exits with %d: %s", args[0], code, errs)
				}
				if !strings.Contains(errs, file+":"+row.line) || !strings.Contains(errs, row.word) {
					t.Errorf("sluice %s says %q, want %s:%s and %q", args[0], errs, file, row.line,
						row.word)
				}
			}
		})
	}
	i := install(t, withSecret(secret, "durable"))
	if _, errs, code := i.run("run", "--config", filepath.Join(i.dir, "none.yaml")); code != 2 {
		t.Errorf("a file that is not there: %d %s", code, errs)
	}
	if _, errs, code := i.run("run", "--nonsense"); code != 2 {
		t.Errorf("an unknown flag: %d %s", code, errs)
	}
}

func TestASecondDaemonIsRefused(t *testing.T) {
	i := install(t, withSecret(secret, "durable"))
	i.start()
	// The same data directory at other addresses.
	text, err := os.ReadFile(i.config)
	must(t, err)
	second := filepath.Join(i.dir, "second.yaml")
	moved := strings.ReplaceAll(string(text), i.address, freeAddress(t))
	moved = strings.ReplaceAll(moved, i.http, freeAddress(t))
	moved = strings.ReplaceAll(moved, i.sockets, i.sockets+"2")
	must(t, os.WriteFile(second, []byte(moved), 0o600))
	var both sync.WaitGroup
	for _, file := range []string{second, i.config} {
		both.Go(func() {
			_, errs, code := i.run("run", "--dev", "--config", file)
			if code != 1 || !strings.Contains(errs, "data_dir") {
				t.Errorf("a second daemon on the data directory exits with %d: %s", code, errs)
			}
		})
	}
	both.Wait()
	// Another data directory at the same address.
	other := install(t, withSecret(secret, "durable"))
	other.address = i.address
	other.configure(withSecret(secret, "durable"))
	_, errs, code := other.run("run", "--dev", "--config", other.config)
	_, port, _ := net.SplitHostPort(i.address)
	if code != 1 || !strings.Contains(errs, port) {
		t.Errorf("a second daemon on the port exits with %d: %s", code, errs)
	}
	if left := other.planes(); len(left) > 0 {
		t.Errorf("it left data planes behind: %v", left)
	}
	i.accepted(github("/hooks/github", "d-1", "{}"))
	if restarts := i.status().GetDataplane().GetRestarts(); restarts != 0 {
		t.Errorf("the first one's data plane was restarted %d times", restarts)
	}
}
