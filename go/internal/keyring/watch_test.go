package keyring

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestAFileThatChangedIsBelievedFromTheSecondLookOn(t *testing.T) {
	r := newRig(t)
	file := r.file("a", "first")
	r.use(r.wanted(file))
	r.holds("first", "second")
	r.write(file.Files[0], "second")
	r.looks(1)
	r.holds("first", "second")
	r.looks(1)
	r.holds("second", "first")
	r.problem("")
}

func TestAFileThatIsStillBeingWrittenIsNotBelieved(t *testing.T) {
	r := newRig(t)
	file := r.file("a", "first")
	r.use(r.wanted(file))
	for _, part := range []string{"", "s", "sec", "secon", "second"} {
		r.write(file.Files[0], part)
		r.looks(1)
		r.holds("first", "s sec secon second")
	}
	r.problem("")
	r.looks(1)
	r.holds("second", "first secon")
}

func TestAFileOfTheSameSizeAndTimeIsSeen(t *testing.T) {
	r := newRig(t)
	file := r.file("a", "first")
	r.use(r.wanted(file))
	info, err := os.Stat(file.Files[0])
	if err != nil {
		t.Fatal(err)
	}
	r.write(file.Files[0], "other")
	if err := os.Chtimes(file.Files[0], info.ModTime(), info.ModTime()); err != nil {
		t.Fatal(err)
	}
	r.looks(2)
	r.holds("other", "first")
}

// Kubernetes replaces a folder behind a link, and the file of the config is a link into it.
func TestAFileBehindLinksThatAreTurnedIsSeen(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"one", "two"} {
		if err := os.Mkdir(filepath.Join(r.folder, name), 0o700); err != nil {
			t.Fatal(err)
		}
		r.write(filepath.Join(r.folder, name, "secret"), name)
	}
	data := filepath.Join(r.folder, "..data")
	link(t, "one", data)
	path := filepath.Join(r.folder, "secret")
	link(t, "..data/secret", path)
	r.use(r.wanted(Secret{Origin: "file:" + path, Files: []string{path},
		Read: func([]byte) ([]byte, error) { return os.ReadFile(path) }}))
	r.holds("one", "two")
	r.looks(10)
	link(t, "two", data+".new")
	if err := os.Rename(data+".new", data); err != nil {
		t.Fatal(err)
	}
	r.looks(2)
	r.holds("two", "one")
}

func link(t *testing.T, to, path string) {
	t.Helper()
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

func TestWhatCannotBeReadOrDoesNotServeLeavesTheSecretAsItWas(t *testing.T) {
	r := newRig(t)
	file := r.file("a", "first")
	r.use(r.wanted(file))
	for what, spoil := range map[string]func(){
		"no such file":  func() { _ = os.Remove(file.Files[0]) },
		"JSON object":   func() { r.write(file.Files[0], `{"valeu": "hunter2"}`) },
		"does not hold": func() { r.write(file.Files[0], `{"value": "hunter2", "not_before": "9"}`) },
	} {
		spoil()
		r.looks(3)
		r.holds("first", "hunter2")
		if what == "does not hold" {
			what = "JSON object"
		}
		r.problem(what)
		r.silent("hunter2")
		r.write(file.Files[0], "first")
		r.looks(2)
		r.problem("")
	}
	r.write(file.Files[0], "second")
	r.looks(2)
	r.holds("second", "first")
}

func TestABadFileIsToldOnceAndNotReadForEver(t *testing.T) {
	r := newRig(t)
	file, reads := r.file("a", "first"), 0
	read := file.Read
	file.Read = func(output []byte) ([]byte, error) { reads++; return read(output) }
	r.use(r.wanted(file))
	r.write(file.Files[0], `{"valeu": "x"}`)
	r.looks(50)
	if n := strings.Count(r.log.String(), "stays in force"); n != 1 {
		t.Errorf("it was told %d times", n)
	}
	if reads > 10 {
		t.Errorf("it was read %d times", reads)
	}
}

func TestASecretOutsideItsTimesIsAProblemWhereNoOtherOneHolds(t *testing.T) {
	r := newRig(t)
	at := func(d time.Duration) string { return r.now().Add(d).UTC().Format(time.RFC3339) }
	old := Secret{Origin: "env:OLD", Read: func([]byte) ([]byte, error) {
		return []byte(`{"value": "old", "not_after": "` + at(48*time.Hour) + `"}`), nil
	}}
	next := Secret{Origin: "env:NEXT", Read: func([]byte) ([]byte, error) {
		return []byte(`{"value": "next", "not_before": "` + at(24*time.Hour) + `"}`), nil
	}}
	r.use(r.wanted(old))
	r.problem("the secret env:OLD expires at")
	r.use(r.wanted(old, next))
	r.problem("")
	r.holds("old", "next")
	r.pass(36 * time.Hour)
	r.holds("old next", "")
	r.pass(36 * time.Hour)
	r.holds("next", "old")
	r.problem("")
	statuses := r.ring.Statuses()["hooks"]
	if statuses[0].NotAfter.IsZero() || statuses[1].NotBefore.IsZero() {
		t.Errorf("the status has no times: %+v", statuses)
	}
	r.pass(-72 * time.Hour)
	r.use(r.wanted(old))
	r.pass(49 * time.Hour)
	r.holds("", "old")
	r.problem("the secret env:OLD has expired")
	r.pass(-49 * time.Hour)
	r.use(r.wanted(next))
	r.problem("the secret env:NEXT does not hold before")
}

func TestEachSecretCountsWhatItProvesOverReloadsAndChanges(t *testing.T) {
	r := newRig(t)
	file := r.file("a", "first")
	r.use(r.wanted(file, literal("other")))
	r.holds("first first other", "")
	r.use(r.wanted(literal("other"), file)) // the other way round
	r.holds("other", "nothing")
	r.write(file.Files[0], "second")
	r.looks(2)
	r.holds("second", "")
	got := map[string]uint64{}
	for _, s := range r.ring.Statuses()["hooks"] {
		got[s.Origin] = s.Verified
		if !s.LastUsed.Equal(r.now()) {
			t.Errorf("%s was last used at %v, not %v", s.Origin, s.LastUsed, r.now())
		}
	}
	if got[file.Origin] != 3 || got["env:O"] != 2 {
		t.Errorf("counted %v", got)
	}
}

func TestASecretThatNeverWasThereIsAFault(t *testing.T) {
	r := newRig(t)
	file := r.file("a", "x")
	_ = os.Remove(file.Files[0])
	_, err := r.ring.Prepare(context.Background(), []Wanted{r.wanted(literal("good"), file)}, true)
	fault := (*Fault)(nil)
	if !errors.As(err, &fault) || fault.Index != 1 || fault.Source != "hooks" {
		t.Fatalf("the error is %v", err)
	}
	r.write(file.Files[0], "first")
	r.use(r.wanted(file))
	_ = os.Remove(file.Files[0])
	r.use(r.wanted(file)) // it is known from the set before
	r.holds("first", "")
	r.problem("no such file")
}

func TestWhatASecretWasIsOverwritten(t *testing.T) {
	r := newRig(t)
	file := r.file("a", "first")
	var given [][]byte
	read := file.Read
	file.Read = func(output []byte) ([]byte, error) {
		text, err := read(output)
		given = append(given, text)
		return text, err
	}
	r.use(r.wanted(file))
	r.write(file.Files[0], "second")
	r.looks(8)
	r.use(r.wanted())
	for _, text := range given {
		if strings.Trim(string(text), "\x00") != "" {
			t.Errorf("%q is still there", text)
		}
	}
}
