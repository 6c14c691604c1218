package tlsfiles

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func (r *rig) tickets() *Tickets { return OpenTickets(r.path("ticket-keys"), r.log, r.clock) }

func TestTicketKeysSurviveARestart(t *testing.T) {
	r := newRig(t)
	first := r.tickets().Keys()
	if len(first) != 1 || first[0].Key == [32]byte{} || first[0].Name == [16]byte{} {
		t.Fatalf("%d keys", len(first))
	}
	info, err := os.Stat(r.path("ticket-keys"))
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("others may read it: %v", info.Mode())
	}
	if second := r.tickets().Keys(); !slices.Equal(second, first) {
		t.Errorf("other keys: %v, %v before", second, first)
	}
	if r.said.Len() != 0 {
		t.Errorf("said %s", r.said.String())
	}
}

func TestEachKeySealsHalfADayAndOpensAWholeOne(t *testing.T) {
	r := newRig(t)
	tickets := r.tickets()
	sealed, opened := map[[16]byte]time.Duration{}, map[[16]byte]time.Duration{}
	const step = time.Hour
	for range 24 * 10 {
		keys := tickets.Keys()
		sealed[keys[0].Name] += step
		for _, k := range keys {
			opened[k.Name] += step
		}
		if len(keys) > 2 {
			t.Fatalf("%d keys at once", len(keys))
		}
		r.now = r.now.Add(step)
		before := tickets.Keys()
		if changed := tickets.turn(); changed == slices.Equal(before, tickets.Keys()) {
			t.Fatal("a change is not told, or none is")
		}
		if again := r.tickets().Keys(); !slices.Equal(again, tickets.Keys()) {
			t.Fatal("the file has other keys")
		}
	}
	full := 0
	for name, d := range sealed {
		if d == ticketSeals && opened[name] == ticketOpens {
			full++
		} else if d > ticketSeals || opened[name] > ticketOpens {
			t.Errorf("sealed for %v, opened for %v", d, opened[name])
		}
	}
	if full < 18 {
		t.Errorf("%d keys had their time, of %d", full, len(sealed))
	}
}

func TestKeysOfALongAbsenceAreNotUsed(t *testing.T) {
	r := newRig(t)
	old := r.tickets().Keys()
	r.now = r.now.Add(ticketOpens)
	if keys := r.tickets().Keys(); len(keys) != 1 || keys[0] == old[0] {
		t.Errorf("%v, %v before", keys, old)
	}
}

func TestAClockThatIsSetBackEndsNoRotation(t *testing.T) {
	r := newRig(t)
	tickets := r.tickets()
	old := tickets.Keys()[0]
	r.now = r.now.Add(-year)
	if !tickets.turn() || tickets.Keys()[0].Name == old.Name {
		t.Error("the key of another time seals on")
	}
	if !slices.ContainsFunc(tickets.Keys(), func(k TicketKey) bool { return k.Name == old.Name }) {
		t.Error("what it sealed is not opened any more")
	}
	for range 100 {
		r.now = r.now.Add(time.Hour)
		tickets.turn()
		if len(tickets.Keys()) > 3 {
			t.Fatalf("%d keys", len(tickets.Keys()))
		}
	}
}

func TestAFileThatIsNotOursIsPutAside(t *testing.T) {
	good := func() []byte {
		r := newRig(t)
		r.tickets()
		text, err := os.ReadFile(r.path("ticket-keys"))
		must(t, err)
		return text
	}()
	for what, c := range map[string]struct {
		text []byte
		mode os.FileMode
	}{
		"a foreign text": {[]byte("my notes"), 0o600},
		"nothing":        {nil, 0o600},
		"no keys":        {[]byte(`{"keys":[]}`), 0o600},
		"half of it":     {good[:len(good)/2], 0o600},
		"a short key": {
			[]byte(`{"keys":[{"born":"2026-03-01T12:00:00Z","name":"00","key":"00"}]}`), 0o600,
		},
		"read by others": {good, 0o644},
		"too large":      {make([]byte, fileBytesMax+1), 0o600},
	} {
		r := newRig(t)
		r.write("ticket-keys", c.text)
		must(t, os.Chmod(r.path("ticket-keys"), c.mode))
		if keys := r.tickets().Keys(); len(keys) != 1 || r.heard("level=WARN") != 1 {
			t.Errorf("%s: %d keys, said %s", what, len(keys), r.said.String())
		}
		aside, err := os.ReadFile(r.path("ticket-keys.aside"))
		if err != nil || string(aside) != string(c.text) {
			t.Errorf("%s: %q aside, %v", what, aside, err)
		}
		r.said.Reset()
		if r.tickets(); r.said.Len() != 0 {
			t.Errorf("%s: after a restart %s", what, r.said.String())
		}
	}
}

func TestAFileThatCannotBeWrittenIsToldOnce(t *testing.T) {
	r := newRig(t)
	tickets := OpenTickets(r.path("not/there/ticket-keys"), r.log, r.clock)
	for range 5 {
		r.now = r.now.Add(ticketSeals)
		tickets.turn()
	}
	if len(tickets.Keys()) == 0 || r.heard("not on disk") != 1 {
		t.Errorf("%d keys, said %s", len(tickets.Keys()), r.said.String())
	}
}

func TestACrashWhileWritingLeavesTheOldKeys(t *testing.T) {
	r := newRig(t)
	old := r.tickets().Keys()
	r.write("ticket-keys.new", []byte(`{"keys":[{"bor`))
	if keys := r.tickets().Keys(); !slices.Equal(keys, old) {
		t.Errorf("%v, %v before", keys, old)
	}
	r.now = r.now.Add(ticketSeals)
	if keys := r.tickets().Keys(); len(keys) != 2 || keys[1] != old[0] {
		t.Errorf("%v", keys)
	}
	if _, err := os.Stat(r.path("ticket-keys.new")); !os.IsNotExist(err) {
		t.Errorf("the leftover is there: %v", err)
	}
}

func TestAKeyNeverShows(t *testing.T) {
	r := newRig(t)
	tickets := r.tickets()
	key := tickets.Keys()[0]
	text, err := json.Marshal(map[string]any{"key": key, "keys": tickets.Keys()})
	must(t, err)
	var out strings.Builder
	slog.New(slog.NewJSONHandler(&out, nil)).Info("shown", "key", key, "keys", tickets.Keys())
	shown := fmt.Sprintf("%v %+v %#v %x %s %d %v", key, key, key, key, key, key, tickets.Keys()) +
		string(text) + out.String()
	for _, form := range []string{hex.EncodeToString(key.Key[:8]),
		strings.Trim(fmt.Sprint(key.Key[:4]), "[]"), fmt.Sprintf("%#x", key.Key[0:1]) + ", "} {
		if strings.Contains(shown, form) {
			t.Errorf("the key shows: %s", shown)
		}
	}
}
