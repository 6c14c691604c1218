package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	pb "sluice/proto/sluice/v1"
)

// keyed is a request as GitHub signs it with a key.
func keyed(path, key, delivery string) request {
	r := github(path, delivery, "{}")
	r.fields[3].value = "sha256=" + hmacHex(key, "{}")
	return r
}

// code is what a request is answered.
func (i *installation) code(r request) int {
	i.t.Helper()
	a, err := i.send(r)
	must(i.t, err)
	return a.code
}

// write replaces a file as those who rotate secrets do.
func (i *installation) write(name, text string) string {
	i.t.Helper()
	path := filepath.Join(i.dir, name)
	must(i.t, os.WriteFile(path+".new", []byte(text), 0o600))
	must(i.t, os.Rename(path+".new", path))
	return path
}

func TestASecretThatChangesOnDiskIsBelievedWithoutAReload(t *testing.T) {
	to := newSink(t)
	i := install(t, "")
	file, script := i.write("file.secret", "file-one\n"), i.write("command.secret", "command-one")
	i.configure(fmt.Sprintf("sources:\n  github:\n    provider: github\n    secrets:\n"+
		"      - \"file:%s\"\n      - command: {run: [cat, %q], every: 1s, timeout: 500ms}\n"+
		"      - {value: \"env:OLD\", not_after: 2020-01-01T00:00:00Z}\n", file, script) +
		"destinations:\n" + to.config("billing"))
	i.env, i.strict = append(i.env, "OLD=env-one"), true
	i.start()
	for key, want := range map[string]int{"file-one": 200, "command-one": 200, "env-one": 401} {
		if code := i.code(keyed("/hooks/github", key, key)); code != want {
			t.Errorf("signed with %s: %d, want %d", key, code, want)
		}
	}
	i.write("file.secret", "file-two\n")
	i.write("command.secret", "command-two")
	for n, key := range []string{"file-two", "command-two"} {
		eventually(t, key+" is believed", func() bool {
			return i.code(keyed("/hooks/github", key, fmt.Sprint(key, n))) == 200
		})
	}
	for _, key := range []string{"file-one", "command-one"} {
		if code := i.code(keyed("/hooks/github", key, "late")); code != 401 {
			t.Errorf("signed with %s: %d, want 401", key, code)
		}
	}
	i.write("file.secret", "")
	eventually(t, "an empty file is a problem", func() bool {
		problems := i.status().GetProblems()
		return len(problems) == 1 && strings.Contains(problems[0], "file.secret")
	})
	if code := i.code(keyed("/hooks/github", "file-two", "kept")); code != 200 {
		t.Errorf("an empty file changed what is believed: %d", code)
	}
	status := i.status()
	if !status.GetReady() || status.GetConfigVersion() != 1 {
		t.Errorf("ready %v, config %d", status.GetReady(), status.GetConfigVersion())
	}
	secrets := status.GetSources()[0].GetSecrets()
	if len(secrets) != 3 || secrets[0].GetVerified() != 3 || secrets[1].GetVerified() != 2 ||
		secrets[2].GetVerified() != 0 || secrets[2].GetNotAfterNs() == 0 {
		t.Errorf("the secrets are %v", secrets)
	}
	label := fmt.Sprintf("{secret=\"file:%s\",source=\"github\"}", file)
	if n := i.metric("webhook_secret_verified_total")[label]; n != "3" {
		t.Errorf("%s is %q in %v", label, n, i.metric("webhook_secret_verified_total"))
	}
	if out, _, _ := i.run("secrets", "list", "github"); !strings.Contains(out, "EXPIRED 2020") ||
		!strings.Contains(out, "command:cat") {
		t.Errorf("the list is %s", out)
	}
}

func TestACommandWithoutASecretKeepsTheDaemonFromStarting(t *testing.T) {
	i := install(t, "sources:\n  github:\n    provider: github\n    secrets:\n"+
		"      - command: {run: [\"false\"]}\n")
	i.strict = true
	i.launch()
	code := i.awaitExit()
	if code != 2 || !i.logged("secrets[0]: the command false ended with exit status 1") {
		t.Errorf("exit %d: %s", code, i.logTail(5))
	}
}

// hook is a handshake as Asana makes it, and event one of its events.
func hook(key string) request {
	return request{path: "/hooks/asana", body: "{}", fields: []field{
		{"Content-Type", "application/json"}, {"X-Hook-Secret", key}}}
}

func asanaEvent(key, body string) request {
	return request{path: "/hooks/asana", body: body, fields: []field{
		{"Content-Type", "application/json"}, {"X-Hook-Signature", hmacHex(key, body)}}}
}

func TestASecretOfAHandshakeIsTakenWhenItWasAskedForAndSurvivesACrash(t *testing.T) {
	i := install(t, "secrets_key: \"env:SEAL\"\nsources:\n  asana:\n    provider: asana\n"+
		"    deliver: []\n")
	i.env = append(i.env, "SEAL="+strings.Repeat("0123456789abcdef", 4))
	i.strict = true
	i.start()
	if code := i.code(hook("a-stranger-s-secret")); code != 401 {
		t.Errorf("a handshake that nobody asked for: %d", code)
	}
	if code := i.code(asanaEvent("a-stranger-s-secret", `{"events":[]}`)); code != 401 {
		t.Errorf("an event of a stranger: %d", code)
	}
	var learned sync.WaitGroup
	var out, errs string
	var exit int
	learned.Go(func() {
		out, errs, exit = i.run("secrets", "learn", "asana", "--show", "--config", i.config)
	})
	eventually(t, "a window is open", func() bool {
		_, err := os.Stat(filepath.Join(i.data, "secrets", "asana.window"))
		return err == nil
	})
	const key = "the-true-secret-of-asana"
	var a *answer
	eventually(t, "the handshake is answered", func() bool {
		var err error
		a, err = i.send(hook(key))
		must(t, err)
		return a.code == 200
	})
	if a.get("X-Hook-Secret") != key {
		t.Errorf("the answer is %v", a)
	}
	if code := i.code(asanaEvent(key, `{"events":[{"n":1}]}`)); code != 200 {
		t.Errorf("the event right behind the handshake: %d", code)
	}
	learned.Wait()
	if exit != 0 || strings.TrimSpace(out) != key || !strings.Contains(errs, "came from 127.0.0.1") ||
		strings.Contains(errs, key) {
		t.Errorf("learn exits with %d: %s%s", exit, out, errs)
	}
	i.killBoth()
	i.start()
	if code := i.code(asanaEvent(key, `{"events":[{"n":2}]}`)); code != 200 {
		t.Errorf("after a crash: %d", code)
	}
	for _, stranger := range []string{"another", "a-stranger-s-secret"} {
		if code := i.code(hook(stranger)); code != 401 {
			t.Errorf("one more handshake: %d", code)
		}
	}
	if code := i.code(hook(key)); code != 200 {
		t.Errorf("the same handshake again: %d", code)
	}
	text, err := os.ReadFile(filepath.Join(i.data, "secrets", "asana.json"))
	if err != nil || !strings.Contains(string(text), "sealed") || strings.Contains(string(text), key) {
		t.Errorf("the file is %s, %v", text, err)
	}
	secrets := i.status().GetSources()[0].GetSecrets()
	if len(secrets) != 1 {
		t.Fatalf("the secrets are %v", secrets)
	}
	id := strings.TrimPrefix(secrets[0].GetOrigin(), "handshake:")
	if _, errs, code := i.run("secrets", "forget", "asana", id, "--config", i.config); code != 0 {
		t.Fatal(errs)
	}
	eventually(t, "what was dropped is believed no more", func() bool {
		return i.code(asanaEvent(key, `{"events":[{"n":3}]}`)) == 401
	})
	i.stop()
	i.env = append(i.env, "SEAL="+strings.Repeat("fedcba9876543210", 4))
	i.launch()
	if code := i.awaitExit(); code != 2 || !i.logged("sealed with another key") {
		t.Errorf("with another key: exit %d: %s", code, i.logTail(5))
	}
}

// visible is all that an operator can see of an installation without being asked for a secret.
func (i *installation) visible() string {
	i.t.Helper()
	var all strings.Builder
	for _, words := range [][]string{
		{"status"}, {"status", "--json"}, {"events", "list", "--json"}, {"secrets", "list"},
		{"secrets", "list", "--json"}, {"check", i.config}, {"doctor", "--config", i.config},
		{"reload"}, {"events", "gaps"}, {"breaker", "list"}, {"limits", "get"}, {"dlq", "list"},
	} {
		out, errs, _ := i.run(words...)
		all.WriteString(out + errs)
	}
	for _, e := range i.events(&pb.EventFilter{}) {
		out, errs, _ := i.run("events", "show", e.GetId())
		all.WriteString(out + errs)
	}
	for _, page := range []string{"metrics", "healthz", "readyz"} {
		answer, err := http.Get("http://" + i.http + "/" + page)
		must(i.t, err)
		text, err := io.ReadAll(answer.Body)
		must(i.t, err)
		must(i.t, answer.Body.Close())
		all.Write(text)
	}
	log, err := os.ReadFile(i.log)
	must(i.t, err)
	all.Write(log)
	return all.String()
}

func TestNoSecretIsShownAnywhere(t *testing.T) {
	to := newSink(t)
	i := install(t, "")
	file := i.write("file.secret", "hunter2-file")
	script := i.write("script", "#!/bin/sh\necho using hunter2-printed >&2\necho hunter2-printed\n")
	must(t, exec.Command("chmod", "755", script).Run())
	text := fmt.Sprintf("secrets_key: \"env:SEAL\"\nsources:\n  github:\n    provider: github\n"+
		"    secrets:\n      - \"env:HUNTER\"\n      - \"file:%s\"\n"+
		"      - command: {run: [%q, hunter2-argument], every: 1s}\n"+
		"  asana:\n    provider: asana\n    learn: first\n"+
		"  gitlab:\n    provider: gitlab\n    secrets: [\"env:HUNTER\"]\n"+
		"destinations:\n", file, script) +
		to.config("billing")
	i.configure(text)
	const seal = "hunter2-seal-hunter2-seal-hunter"
	i.env = append(i.env, "HUNTER=hunter2-env", fmt.Sprintf("SEAL=%x", seal))
	i.strict = true
	i.start("--verbose")
	for n, key := range []string{"hunter2-env", "hunter2-file", "hunter2-printed", "hunter2-wrong"} {
		i.code(keyed("/hooks/github", key, fmt.Sprint("d-", n)))
	}
	for _, r := range []request{
		hook("hunter2-hook"), hook("hunter2-hook"), hook("hunter2-stranger"),
		asanaEvent("hunter2-hook", `{"events":[{"n":1}]}`), asanaEvent("hunter2-other", "{}"),
		{path: "/hooks/gitlab", body: "{}", fields: []field{{"X-Gitlab-Token", "hunter2-env"}}},
	} {
		i.code(r)
	}
	i.awaitDelivered()
	if n := len(i.events(&pb.EventFilter{})); n != 5 {
		t.Errorf("%d events are stored", n)
	}
	i.write("file.secret", `{"valeu": "hunter2-spoilt"}`)
	eventually(t, "a bad file is a problem", func() bool {
		return strings.Contains(strings.Join(i.status().GetProblems(), " "), "file.secret")
	})
	i.write("file.secret", "hunter2-next")
	eventually(t, "the next secret is believed", func() bool {
		return i.code(keyed("/hooks/github", "hunter2-next", "next")) == 200
	})
	i.write("script", "#!/bin/sh\necho hunter2-failed; echo hunter2-failed >&2; exit 1\n")
	must(t, exec.Command("chmod", "755", script).Run())
	eventually(t, "a failing command is a problem", func() bool {
		return strings.Contains(strings.Join(i.status().GetProblems(), " "), "exit status 1")
	})
	i.configure(strings.Replace(text, "learn: first", "learn: nonsense", 1)) // a reload is refused
	all := i.visible()
	for line := range strings.Lines(all) {
		if strings.Contains(line, "hunter2") || strings.Contains(line, fmt.Sprintf("%x", seal)) {
			t.Errorf("a secret is shown: %s", line)
		}
	}
	if !strings.Contains(all, "env:HUNTER") || !strings.Contains(all, "webhook_secret_verified") {
		t.Error("it was not looked at much")
	}
	for _, pid := range append(i.planes(), i.control.Process.Pid) {
		mask, err := os.ReadFile(fmt.Sprintf("/proc/%d/coredump_filter", pid))
		if err != nil || strings.Trim(string(mask), "0\n") != "" {
			t.Errorf("process %d is dumped with %s, %v", pid, mask, err)
		}
	}
}
