package reconcile

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sluice/go/internal/config"
	"sluice/go/internal/store/vfs"
)

// ear is a Silence with what it hears and tells.
type ear struct {
	*Silence
	senders []Sender
	told    []string
	log     bytes.Buffer
}

func listen(file *vfs.Whole, senders ...Sender) *ear {
	e := &ear{senders: senders}
	e.Silence = NewSilence(SilenceOptions{
		File: file, Senders: func() []Sender { return e.senders },
		Changed: func(name string, silent bool) {
			word := " heard"
			if silent {
				word = " silent"
			}
			e.told = append(e.told, name+word)
		},
		Log: slog.New(slog.NewTextHandler(&e.log, nil)),
	})
	return e
}

// pass lets time pass, with a look each while and what is heard in it.
func (e *ear) pass(from time.Time, span, each time.Duration, heard uint64) time.Time {
	at := from
	for ; at.Before(from.Add(span)); at = at.Add(each) {
		for i := range e.senders {
			e.senders[i].Heard += heard
		}
		e.look(at)
	}
	return at
}

func tempFile(t *testing.T) *vfs.Whole {
	return vfs.NewWhole(vfs.OS(), filepath.ToSlash(filepath.Join(t.TempDir(), "rhythm.json")))
}

func TestASourceThatIsQuietForLongerThanAllowedIsSilentUntilItIsHeard(t *testing.T) {
	e := listen(tempFile(t), Sender{Name: "strict", Silence: config.Silence(time.Minute)},
		Sender{Name: "off"}, Sender{Name: "auto", Silence: config.SilenceAuto})
	at := e.pass(time.Unix(1e9, 0), time.Minute, time.Second, 0)
	if e.Silent("strict") || !e.Heard("strict").IsZero() {
		t.Error("silent in its first minute")
	}
	at = e.pass(at, 2*time.Second, time.Second, 0)
	if !e.Silent("strict") || e.Silent("off") || e.Silent("auto") ||
		!strings.Contains(e.Problem("strict", at), "source strict is silent: nothing came for 1m") ||
		e.Problem("off", at) != "" {
		t.Errorf("silent: %v, %q", e.Silent("strict"), e.Problem("strict", at))
	}
	at = e.pass(at, time.Second, time.Second, 1)
	if e.Silent("strict") || e.Heard("strict").IsZero() {
		t.Error("silent after it was heard")
	}
	if want := []string{"strict silent", "strict heard"}; !slices.Equal(e.told, want) {
		t.Errorf("told: %q", e.told)
	}
	e.senders = e.senders[1:]
	e.pass(at, time.Hour, time.Second, 0)
	if e.Silent("strict") || len(e.Silence.senders) != 2 {
		t.Error("what the config has no more is listened to")
	}
}

func TestARhythmIsKeptOverARestartWhichIsNoSilence(t *testing.T) {
	file := tempFile(t)
	e := listen(file, Sender{Name: "it", Silence: config.SilenceAuto})
	at := e.pass(time.Unix(1e9, 0), 15*24*time.Hour, 30*time.Second, 1)
	e.keep()
	last := e.Heard("it")

	again := listen(file, Sender{Name: "it", Silence: config.SilenceAuto})
	if !again.Heard("it").Equal(last) {
		t.Errorf("heard %v, want %v", again.Heard("it"), last)
	}
	at = at.Add(6 * time.Hour) // nobody listened
	at = again.pass(at, 10*time.Minute, 30*time.Second, 0)
	if again.Silent("it") {
		t.Error("silent while nobody listened")
	}
	again.pass(at, 10*time.Minute, 30*time.Second, 0)
	if !again.Silent("it") {
		t.Error("not silent, though it is heard each minute")
	}
}

func TestRhythmsThatCannotBeReadAreLearnedAnew(t *testing.T) {
	file := tempFile(t)
	must(t, file.Write([]byte("[1]")))
	e := listen(file, Sender{Name: "it"})
	if !strings.Contains(e.log.String(), "learned anew") {
		t.Error("nobody is told")
	}
	e.pass(time.Unix(1e9, 0), time.Minute, time.Second, 1)
	e.keep()
	if listen(file).Heard("it").IsZero() {
		t.Error("it is not kept from then on")
	}
}

func TestListeningKeepsWhatItLearnedWhenItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file := vfs.NewWhole(vfs.NewMem(), "rhythm.json")
		e := listen(file, Sender{Name: "it", Heard: 1})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		e.Run(ctx)
		if listen(file).Heard("it").IsZero() {
			t.Error("nothing is kept")
		}
	})
}
