package keyring

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/go/internal/provider"
)

var peer = netip.MustParseAddr("192.0.2.7")

// learn brings a secret and checks what becomes of it.
func (r *rig) learn(secret string, want error) {
	r.t.Helper()
	err := r.ring.Learn(7, "hook", []byte(secret), peer)
	if !errors.Is(err, want) || want == nil && err != nil {
		r.t.Errorf("bringing %s gives %v, want %v", secret, err, want)
	}
}

func (r *rig) open(count int, replace bool) {
	r.t.Helper()
	if _, err := r.store().OpenWindow("hooks", 10*time.Minute, count, replace); err != nil {
		r.t.Fatal(err)
	}
	r.pass(2 * windowAgain)
}

// kept are the values in the file, as another process reads them.
func (r *rig) kept() (values []string) {
	r.t.Helper()
	list, err := r.store().Kept("hooks")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, k := range list {
		values = append(values, string(k.Reveal()))
	}
	return values
}

func TestNobodyMakesASourceBelieveASecretUnasked(t *testing.T) {
	r := newRig(t)
	r.use(r.wanted())
	for i := range 1000 {
		r.learn(fmt.Sprint("stranger", i), ErrUnasked)
		r.pass(time.Millisecond)
	}
	r.holds("", "stranger0 stranger999")
	if _, err := os.Stat(r.secrets()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a flood of handshakes has written: %v", err)
	}
	if n := strings.Count(r.log.String(), "nobody asked"); n != 1 {
		t.Errorf("a flood of handshakes was logged %d times", n)
	}
	r.problem("sluice secrets learn hooks")
	r.silent("stranger")
	r.pass(unaskedShown)
	r.problem("")
}

func TestAWindowTakesAsManySecretsAsItCounts(t *testing.T) {
	r := newRig(t)
	r.use(r.wanted(literal("configured")))
	r.open(2, false)
	r.problem("the next 2 that make a handshake decide")
	r.learn("one", nil)
	r.learn("one", nil) // is there, and takes no place
	r.learn("configured", nil)
	r.learn("two", nil)
	r.learn("three", ErrUnasked)
	r.learn("one", nil)
	r.holds("configured one two", "three")
	r.problem("nobody asked")
	if got := strings.Join(r.kept(), " "); got != "one two" {
		t.Errorf("kept %s", got)
	}
	if s := r.ring.Statuses()["hooks"]; len(s) != 3 || !strings.HasPrefix(s[1].Origin, "handshake:") ||
		s[1].Role != "hook" || s[1].Verified != 1 {
		t.Errorf("the statuses are %+v", s)
	}
	if !strings.Contains(r.log.String(), "from="+peer.String()) {
		t.Errorf("nobody is told who brought it: %s", r.log)
	}
	r.silent("configured", "value")
}

func TestAWindowClosesWithItsTime(t *testing.T) {
	r := newRig(t)
	r.use(r.wanted())
	r.open(1, false)
	r.pass(10 * time.Minute)
	r.learn("late", ErrUnasked)
	r.open(1, false)
	if err := r.store().CloseWindow("hooks"); err != nil {
		t.Fatal(err)
	}
	r.learn("late", ErrUnasked)
	r.write(r.store().windowPath("hooks"), `{"id": "x", "until": "2999-01-01T00:00:00Z", "count": 9}`)
	r.pass(2 * windowAgain)
	r.learn("late", ErrUnasked) // nobody could have opened it for so long
	r.holds("", "late")
}

func TestASecretIsInItsFileBeforeLearnReturns(t *testing.T) {
	r := newRig(t)
	defer syscall.Umask(syscall.Umask(0))
	r.use(r.wanted())
	r.open(1, false)
	r.learn("one", nil)
	r.reopen() // the process died at once
	r.use(r.wanted())
	r.holds("one", "two")
	for path, mode := range map[string]os.FileMode{
		r.secrets(): 0o700, r.store().path("hooks"): 0o600, filepath.Join(r.secrets(), "lock"): 0o600,
	} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
	}
	if _, err := os.Stat(r.store().windowPath("hooks")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a window that is spent is there: %v", err)
	}
}

// A crash after the file was written and before the window was removed.
func TestAWindowIsSpentByWhatTheFileHas(t *testing.T) {
	r := newRig(t)
	r.use(r.wanted())
	r.open(1, false)
	window, err := os.ReadFile(r.store().windowPath("hooks"))
	if err != nil {
		t.Fatal(err)
	}
	r.learn("one", nil)
	r.write(r.store().windowPath("hooks"), string(window))
	r.reopen()
	r.use(r.wanted())
	r.learn("two", ErrUnasked)
	r.learn("one", nil) // the sender made the handshake again
	r.holds("one", "two")
}

func TestAReplacingWindowDropsWhatWasThereOnceTheNewOneCame(t *testing.T) {
	r := newRig(t)
	r.use(r.wanted())
	r.open(2, false)
	r.learn("one", nil)
	r.learn("two", nil)
	r.open(2, true)
	r.holds("one two", "")
	r.learn("three", nil)
	r.learn("four", nil)
	r.holds("three four", "one two")
	if got := strings.Join(r.kept(), " "); got != "three four" {
		t.Errorf("kept %s", got)
	}
}

func TestTheFirstSecretMayComeUnaskedWhereTheConfigSaysSo(t *testing.T) {
	r := newRig(t)
	w := r.wanted()
	w.First = true
	r.use(w)
	r.problem("learn: first")
	r.learn("one", nil)
	r.learn("two", ErrUnasked)
	r.holds("one", "two")
	r.reopen()
	r.use(w)
	r.learn("two", ErrUnasked)
}

func TestASecretThatCannotBeKeptIsNotBelieved(t *testing.T) {
	r := newRig(t)
	r.use(r.wanted())
	r.open(1, false)
	// Something is where the new file would be made.
	if err := os.MkdirAll(r.store().path("hooks")+".new/x", 0o700); err != nil {
		t.Fatal(err)
	}
	err := r.ring.Learn(7, "hook", []byte("one"), peer)
	if err == nil || errors.Is(err, ErrUnasked) {
		t.Fatalf("it gives %v", err)
	}
	r.learn("one", errTooSoon)
	r.holds("", "one")
	r.pass(windowAgain)
	if err := os.RemoveAll(r.store().path("hooks") + ".new"); err != nil {
		t.Fatal(err)
	}
	r.learn("one", nil)
	r.holds("one", "")
	r.silent("\"one\"", "=one")
}

func TestACommandLineThatHangsDoesNotHoldIntakeUp(t *testing.T) {
	r := newRig(t)
	r.use(r.wanted())
	r.open(1, false)
	unlock, err := r.store().lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.ring.Learn(7, "hook", []byte("one"), peer); err == nil || errors.Is(err, ErrUnasked) {
		t.Errorf("it gives %v", err)
	}
	unlock()
	r.pass(windowAgain)
	r.learn("one", nil)
}

func TestSecretsAreSealedWhereThereIsAKey(t *testing.T) {
	key := func(b byte) []byte { return []byte(strings.Repeat(string(rune('a'+b)), 32)) }
	read := func(r *rig) string {
		text, err := os.ReadFile(r.store().path("hooks"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	r := newRig(t)
	r.use(r.wanted())
	r.open(1, false)
	r.learn("one", nil)
	if !strings.Contains(read(r), "b25l") { // "one" in base64
		t.Errorf("without a key the file is %s", read(r))
	}
	for _, keys := range [][][]byte{{key(1)}, {key(2), key(1)}, {key(2)}} {
		r.reopen(keys...)
		r.use(r.wanted())
		r.holds("one", "")
		if strings.Contains(read(r), "b25l") || !strings.Contains(read(r), "sealed") {
			t.Errorf("the file is %s", read(r))
		}
	}
	for what, keys := range map[string][][]byte{
		"another key": {key(1), key(3)}, "secrets_key is not set": nil,
	} {
		r.reopen(keys...)
		_, err := r.ring.Prepare(context.Background(), []Wanted{r.wanted()}, true)
		if fault := (*Fault)(nil); !errors.As(err, &fault) || !strings.Contains(err.Error(), what) {
			t.Errorf("the error is %v, not one of %s", err, what)
		}
	}
	// What is sealed for one source is none for another.
	r.reopen(key(2))
	text := strings.Replace(read(r), `"hooks"`, `"other"`, 1)
	r.write(r.store().path("other"), text)
	_, err := r.ring.Prepare(context.Background(), []Wanted{r.named("other", 8)}, true)
	if !errors.Is(err, ErrKey) && (err == nil || !strings.Contains(err.Error(), "another key")) {
		t.Errorf("the error is %v", err)
	}
	if _, err := NewStore(r.secrets(), [][]byte{[]byte("short")}); err == nil {
		t.Error("a short key is taken")
	}
}

func TestAFileThatIsDamagedIsAFaultThatNamesIt(t *testing.T) {
	for _, text := range []string{"", "{}", `{"source": "other", "secrets": []}`, "null",
		`{"source": "hooks", "secrets": [{"id": "a", "value": ""}]}`,
		`{"source": "hooks", "secrets": [null]}`, `{"source": "hooks", "sealed": "!"}`,
		`{"source": "hooks", "secrets": {"value": "aHVudGVyMg=="}}`} {
		r := newRig(t)
		if err := os.Mkdir(r.secrets(), 0o700); err != nil {
			t.Fatal(err)
		}
		r.write(r.store().path("hooks"), text)
		_, err := r.ring.Prepare(context.Background(), []Wanted{r.wanted()}, true)
		if err == nil || !strings.Contains(err.Error(), r.store().path("hooks")) ||
			!strings.Contains(err.Error(), "move the file away") {
			t.Errorf("%s gives %v", text, err)
		}
	}
}

func TestWhatTheCommandLineDropsIsNotBelievedAtTheNextLook(t *testing.T) {
	r := newRig(t)
	r.use(r.wanted())
	r.open(2, false)
	r.learn("one", nil)
	r.learn("two", nil)
	other, err := NewStore(r.secrets(), nil)
	if err != nil {
		t.Fatal(err)
	}
	list, err := other.Kept("hooks")
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Forget("hooks", "nobody"); !errors.Is(err, ErrUnknown) {
		t.Errorf("forgetting what is not there gives %v", err)
	}
	if err := other.Forget("hooks", list[0].ID); err != nil {
		t.Fatal(err)
	}
	r.looks(1)
	r.holds("two", "one")
	text := fmt.Sprintf("%v %+v %s %d", list[0], list[0], list, list)
	if strings.Contains(text, "one") || strings.Contains(text, "111 110 101") {
		t.Errorf("a secret prints: %s", text)
	}
}

func TestWhatIsLearnedDuringAReloadCountsForTheNextConfigToo(t *testing.T) {
	r := newRig(t)
	r.use(r.wanted())
	before := r.ring.sets[0]
	r.open(3, false)
	set, err := r.ring.Prepare(context.Background(), []Wanted{r.wanted()}, true)
	if err != nil {
		t.Fatal(err)
	}
	r.learn("one", nil) // prepared, and not in use yet
	r.ring.Use(before, set)
	r.holds("one", "")
	r.learn("two", nil)
	r.holds("one two", "")
	r.ring.Use(set)
	r.learn("three", nil)
	r.holds("one two three", "")
}

func TestASecretOfAnotherProviderIsLeftOutAndNamed(t *testing.T) {
	r := newRig(t)
	r.use(r.wanted())
	r.open(3, false)
	for _, secret := range []string{"one", "unfit", "two"} {
		r.learn(secret, nil)
	}
	w := r.wanted()
	compile := w.Compile
	w.Compile = func(secrets []provider.Secret, proved func(int, int64)) (func(), error) {
		for i, s := range secrets {
			if s.Value == "unfit" {
				return nil, &provider.SecretError{Index: i, Reason: "is not hex"}
			}
		}
		return compile(secrets, proved)
	}
	r.use(w)
	r.holds("one two", "unfit")
	r.problem("is none for its provider")
	r.open(2, false)
	if err := r.store().Forget("hooks", r.unfitID()); err != nil {
		t.Fatal(err)
	}
	r.looks(1)
	if err := r.ring.Learn(7, "hook", []byte("unfit"), peer); err == nil {
		t.Error("it is learned")
	}
	r.holds("one two", "unfit")
	for _, s := range r.ring.Statuses()["hooks"] {
		if s.Verified != 2 {
			t.Errorf("counted %d for %s", s.Verified, s.Origin)
		}
	}
}

func (r *rig) unfitID() string {
	list, err := r.store().Kept("hooks")
	if err != nil {
		r.t.Fatal(err)
	}
	for _, k := range list {
		if string(k.Reveal()) == "unfit" {
			return k.ID
		}
	}
	r.t.Fatal("it is not kept")
	return ""
}

func TestASourceKeepsABoundedNumberOfSecrets(t *testing.T) {
	r := newRig(t)
	r.use(r.wanted())
	r.open(learnedMax, false)
	for i := range learnedMax {
		r.learn(fmt.Sprint("secret", i), nil)
	}
	r.open(1, false)
	if err := r.ring.Learn(7, "hook", []byte("more"), peer); err == nil ||
		!strings.Contains(err.Error(), "sluice secrets forget") {
		t.Errorf("it gives %v", err)
	}
	r.learn(strings.Repeat("x", learnedBytesMax+1), ErrUnasked)
	r.learn("", ErrUnasked)
}

func TestManyMayBringSecretsAtOnceWhileFilesChange(t *testing.T) {
	r := newRig(t)
	file := r.file("a", "first")
	r.use(r.wanted(file))
	r.open(3, false)
	var bringing sync.WaitGroup
	for i := range 4 {
		bringing.Go(func() {
			for j := range 4 {
				_ = r.ring.Learn(7, "hook", []byte(fmt.Sprintf("s%d-%d", i, j)), peer)
				_ = r.ring.Problems()
				_ = r.ring.Statuses()
				r.proves("first")
			}
		})
	}
	r.write(file.Files[0], "second")
	r.looks(3)
	bringing.Wait()
	if n := len(r.kept()); n != 3 {
		t.Errorf("a window for 3 took %d", n)
	}
	r.holds("second "+strings.Join(r.kept(), " "), "first")
}
