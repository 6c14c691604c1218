package event

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func idOf(t *testing.T, text string) ID {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(ID{}) {
		t.Fatalf("%s: %v", text, err)
	}
	return ID(raw)
}

func TestTheTextFormIsAULID(t *testing.T) {
	for _, test := range []struct{ bytes, text string }{
		{"00000000000000000000000000000000", "00000000000000000000000000"},
		{"01937a5c000000010203040506070809", "01JDX5R000000G40R40M30E209"},
		{"000102030405060708090a0b0c0d0e0f", "00041061050R3GG28A1C60T3GF"},
		{"ffffffffffffffffffffffffffffffff", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"},
	} {
		id := idOf(t, test.bytes)
		if got := id.String(); got != test.text {
			t.Errorf("%s is written %s, want %s", test.bytes, got, test.text)
		}
		for _, text := range []string{test.text, strings.ToLower(test.text)} {
			if back, err := ParseID(text); err != nil || back != id {
				t.Errorf("%s is read as %x: %v", text, back, err)
			}
		}
	}
}

func TestWhatIsNoULIDIsRefusedWithItsReason(t *testing.T) {
	for text, reason := range map[string]string{
		"":                             "want 26 characters, got 0",
		"01JDX5R000000G40R40M30E20":    "want 26 characters, got 25",
		"01JDX5R000000G40R40M30E2090":  "want 26 characters, got 27",
		"81JDX5R000000G40R40M30E209":   `'8' has no place there`, // more than 128 bits
		"01JDX5R000000G40R40M30E20I":   `'I' has no place there`,
		"01JDX5R000000G40R40M30E20l":   `'l' has no place there`,
		"01JDX5R000000G40R40M30E20O":   `'O' has no place there`,
		"01JDX5R000000G40R40M30E20U":   `'U' has no place there`,
		"01JDX5R000000G40R40M30E20-":   `'-' has no place there`,
		"01JDX5R000000G40R40M30E2\x00": `want 26 characters, got 25`,
		"01JDX5R000000G40R40M30E2é":    "has no place there", // 26 bytes
	} {
		if id, err := ParseID(text); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: %v, %v; want %q", text, id, err, reason)
		}
	}
}

func TestTheOrderOfTextIsTheOrderOfBytes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	next := func() (id ID) {
		for i := range id {
			id[i] = byte(random.Uint32())
		}
		return id
	}
	for range 5000 {
		a, b := next(), next()
		if random.IntN(2) == 0 { // neighbours as well
			b = a
			b[random.IntN(len(b))] ^= 1 << random.IntN(8)
		}
		if bytes.Compare(a[:], b[:]) != strings.Compare(a.String(), b.String()) {
			t.Fatalf("%x and %x are written %s and %s", a, b, a, b)
		}
		if back, err := ParseID(a.String()); err != nil || back != a {
			t.Fatalf("%x comes back as %x: %v", a, back, err)
		}
	}
}

func TestAnIDIsMadeOfTimeLaneAndPosition(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123_456_789, time.UTC)
	lane := LaneID{1, 2, 3}
	id := NewID(lane, 4096, uint64(at.UnixNano()))
	if again := NewID(lane, 4096, uint64(at.UnixNano())); again != id {
		t.Errorf("%s, then %s", id, again)
	}
	if want := at.Truncate(time.Millisecond); !id.Time().Equal(want) {
		t.Errorf("time %s, want %s", id.Time(), want)
	}
	// Known for good: a frame that is judged again by a later version keeps its name.
	if want := "01KJMMA2KVRE6MWM4401S6NB9R"; id.String() != want {
		t.Errorf("%s, want %s", id, want)
	}
	others := map[ID]string{id: "itself"}
	for name, other := range map[string]ID{
		"lane":     NewID(LaneID{1, 2, 4}, 4096, uint64(at.UnixNano())),
		"position": NewID(lane, 4160, uint64(at.UnixNano())),
		"time":     NewID(lane, 4096, uint64(at.Add(time.Millisecond).UnixNano())),
	} {
		if same, ok := others[other]; ok {
			t.Errorf("another %s gives the id of %s", name, same)
		}
		others[other] = name
	}
	later := NewID(LaneID{}, 0, uint64(at.Add(time.Millisecond).UnixNano()))
	if bytes.Compare(id[:], later[:]) >= 0 {
		t.Error("a later event sorts before an earlier one")
	}
	if id.IsZero() || !(ID{}).IsZero() {
		t.Error("IsZero")
	}
}

func TestASeqHoldsGroupAndIndex(t *testing.T) {
	for _, test := range []struct {
		group uint64
		index int
	}{{0, 0}, {1, 0}, {7, GroupFrames - 1}, {1<<48 - 1, 3}} {
		s := NewSeq(test.group, test.index)
		if s.Group() != test.group || s.Index() != test.index {
			t.Errorf("%d.%d comes back as %d.%d", test.group, test.index, s.Group(), s.Index())
		}
	}
	if NewSeq(1, GroupFrames-1) >= NewSeq(2, 0) {
		t.Error("the order of seqs is not the order of groups")
	}
}

func TestWordsOfStatesAreReadAsTheyAreWritten(t *testing.T) {
	for s := Pending; s <= Duplicate; s++ {
		if back, err := ParseState(s.String()); err != nil || back != s {
			t.Errorf("%s comes back as %s: %v", s, back, err)
		}
	}
	if _, err := ParseState("state(9)"); err == nil {
		t.Error("a state that is none was read")
	}
	for k, word := range map[OutcomeKind]string{
		Done: "done", Retry: "retry", Dead: "dead", Replay: "replay", Drop: "drop", 9: "outcome(9)",
	} {
		if k.String() != word {
			t.Errorf("%d is written %s", k, k)
		}
	}
	if got := State(9).String(); got != "state(9)" {
		t.Errorf("an unknown state is written %s", got)
	}
}

func TestTheCatalogueNamesWhatNoConfigHasAnyMore(t *testing.T) {
	c := Catalogue{
		Sources: []Named{{ID: 1, Name: "shop"}}, Destinations: []Named{{ID: 4, Name: "billing"}},
		Routes: []Route{{Version: 3, Source: 1, Destinations: []uint32{4}}},
	}
	got := fmt.Sprint(c.SourceName(1), c.SourceName(2), c.DestinationName(4), c.DestinationName(1))
	if want := "shop source-2 billing destination-1"; got != strings.ReplaceAll(want, " ", "") {
		t.Errorf("%s, want %s", got, want)
	}
	if r, ok := c.Route(3); !ok || r.Source != 1 {
		t.Errorf("route 3: %v, %v", r, ok)
	}
	if _, ok := c.Route(4); ok {
		t.Error("a route that is none was found")
	}
}
