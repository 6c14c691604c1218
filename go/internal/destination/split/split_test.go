package split

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
	"sluice/go/internal/provider"
	"sluice/shm-abi/shmabi"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// store keeps what is derived, each ID once, as the real one does. It fails at the nth group.
type store struct {
	t        testing.TB
	original shmabi.Frame
	failAt   int
	groups   []int
	frames   []shmabi.Frame
}

var errStore = errors.New("the store says no")

func (s *store) read(event.Seq) (shmabi.Frame, func(), error) { return s.original, func() {}, nil }

func (s *store) derive(_ context.Context, list []shmabi.Frame) error {
	size := 0
	for _, f := range list {
		size += len(f)
	}
	if len(list) == 0 || len(list) > DeriveMax || size > DeriveBytesMax && len(list) > 1 {
		s.t.Errorf("a group of %d events, %d bytes", len(list), size)
	}
	if s.failAt--; s.failAt == 0 {
		return errStore
	}
	s.groups = append(s.groups, len(list))
	for _, f := range list {
		id := f.C().EventID()
		if !slices.ContainsFunc(s.frames, func(g shmabi.Frame) bool { return g.C().EventID() == id }) {
			s.frames = append(s.frames, slices.Clone(f))
		}
	}
	return nil
}

var received = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// originalOf is a batch as intake leaves it.
func originalOf(t testing.TB, body string, flags uint8, headers ...[2]string) shmabi.Frame {
	t.Helper()
	f, err := shmabi.BuildEvent(shmabi.EventParts{
		Method: "POST", Target: "/hooks/mail?a=1", Client: "cn:sender", SourceID: 3, ConfigVersion: 7,
		Body: []byte(body), ReceivedNS: uint64(received.UnixNano()), Token: 9, Position: 64, Seq: 5,
		Headers: append([][2]string{
			{"Content-Type", "application/json"}, {"Content-Length", fmt.Sprint(len(body))},
			{"X-Signature", "of the whole"},
		}, headers...),
	})
	must(t, err)
	c := f.C()
	c.SetEventID(event.NewID(event.LaneID{1}, 64, uint64(received.UnixNano())))
	c.SetFlags(flags)
	c.SetSecretIndex(2)
	c.SetRouteVersion(4)
	return f
}

func options(s *store) Options {
	pointer := func(text string) []provider.Source {
		return []provider.Source{{Kind: provider.SourceJSON, Name: text}}
	}
	return Options{
		Batch: &provider.Batch{
			Items: provider.Source{Kind: provider.SourceBody}, ID: pointer("/id"), Type: pointer("/event"),
		},
		Route: 5, Dedup: time.Hour, Read: s.read, Derive: s.derive, Log: slog.New(slog.DiscardHandler),
		OrderKey: func(r *provider.Request) uint64 { return uint64(len(r.Body)) },
	}
}

func deliver(o Options) destination.Result {
	return New(o).Deliver(context.Background(), &destination.Request{})
}

func TestEachItemIsAnEventOfItsOwn(t *testing.T) {
	const a, b = `{"id": "1",  "event":"open"}`, `{"id":"2","event":"click","x":[1,2]}`
	s := &store{t: t}
	s.original = originalOf(t, "[ "+a+" ,\r\n"+b+", 7]", 0)
	if got := deliver(options(s)); got.Kind != destination.Delivered {
		t.Fatal(got)
	}
	id := event.ID(s.original.C().EventID())
	keys := map[[16]byte]bool{}
	for n, body := range []string{a, b, "7"} {
		f := s.frames[n]
		e, err := f.Event()
		must(t, err)
		c, d := f.C(), f.D()
		if string(e.Body()) != body || string(e.Target()) != "/hooks/mail?a=1" ||
			string(e.Client()) != "cn:sender" || d.SourceID() != 3 || d.Token() != 0 ||
			d.ReceivedNS() != uint64(received.UnixNano()) || c.RouteVersion() != 5 ||
			c.State() != uint16(shmabi.StateVerified) || c.SecretIndex() != 2 ||
			c.OrderKey() != uint64(len(body)) {
			t.Errorf("item %d is %q, C line %x", n, e.Body(), []byte(c))
		}
		var fields []string
		for i := range e.HeaderCount() {
			name, value := e.Header(i)
			fields = append(fields, string(name)+": "+string(value))
		}
		want := []string{"Content-Type: application/json", "X-Signature: of the whole",
			fmt.Sprintf("X-Event-Batch: %s/%d", id, n)}
		if !slices.Equal(fields, want) {
			t.Errorf("item %d has the fields %q", n, fields)
		}
		if of, number, yes := Of(&e); !yes || of != id || number != uint32(n) {
			t.Errorf("item %d is said to be %d of %v: %v", n, number, of, yes)
		}
		keyed := c.DedupKey() != [16]byte{}
		if keyed != (n < 2) || keyed && keys[c.DedupKey()] {
			t.Errorf("item %d has the key %x", n, c.DedupKey())
		}
		keys[c.DedupKey()] = true
	}
	if len(s.frames) != 3 {
		t.Errorf("%d events", len(s.frames))
	}
}

func TestWhoeverIsInterruptedMakesNoItemTwice(t *testing.T) {
	var body strings.Builder
	const count = 2*DeriveMax + 10
	for n := range count {
		fmt.Fprintf(&body, `,{"id":"%d"}`, n)
	}
	for failAt := 1; failAt <= 4; failAt++ {
		s := &store{t: t, failAt: failAt, original: originalOf(t, "["+body.String()[1:]+"]", 0)}
		o := options(s)
		first := deliver(o)
		if failed := first.Kind == destination.Retry; failed != (failAt <= 3) ||
			failed && !errors.Is(first.Err, errStore) {
			t.Fatalf("fails at %d: %+v", failAt, first)
		}
		s.failAt = 0
		if again := deliver(o); again.Kind != destination.Delivered || len(s.frames) != count {
			t.Errorf("fails at %d: %+v, %d events", failAt, again, len(s.frames))
		}
	}
}

func TestABodyThatCannotBeTakenApartGoesOnWhole(t *testing.T) {
	s := &store{t: t}
	for name, body := range map[string]string{
		"no JSON": "[1,", "no list": `{"id":1}`, "nothing": "",
		"too many": "[" + strings.Repeat("0,", 5000) + "0]",
	} {
		s.frames, s.original = nil, originalOf(t, body, 0)
		o, told := options(s), 0
		o.Whole = func() { told++ }
		for range 2 {
			if got := deliver(o); got.Kind != destination.Delivered {
				t.Fatal(name, got)
			}
		}
		if len(s.frames) != 1 || told != 2 {
			t.Fatalf("%s: %d events, told %d times", name, len(s.frames), told)
		}
		e, err := s.frames[0].Event()
		must(t, err)
		if _, _, item := Of(&e); item || string(e.Body()) != body {
			t.Errorf("%s: an item %v of %d bytes", name, item, len(e.Body()))
		}
		if s.frames[0].C().EventID() == s.original.C().EventID() {
			t.Errorf("%s: it has the id of the original", name)
		}
	}
	s.frames, s.original = nil, originalOf(t, "[]", 0)
	if got := deliver(options(s)); got.Kind != destination.Delivered || len(s.frames) != 0 {
		t.Errorf("an empty list: %+v, %d events", got, len(s.frames))
	}
}

func TestAnItemIsDoubtedAsItsOriginalIs(t *testing.T) {
	flags := uint8(shmabi.VerdictFlagUnverified) | event.DoubtFlags(uint8(provider.BadSignature))
	s := &store{t: t}
	s.original = originalOf(t, `[{"id":"1"}]`, flags|uint8(shmabi.VerdictFlagDegraded))
	deliver(options(s))
	c := s.frames[0].C()
	if c.Flags() != flags || c.DedupKey() != [16]byte{} {
		t.Errorf("flags %x, key %x", c.Flags(), c.DedupKey())
	}
}

func TestNobodyCanPretendToBeAnItem(t *testing.T) {
	id := event.NewID(event.LaneID{2}, 0, uint64(received.UnixNano()))
	mine := [2]string{"x-event-batch", headerValue(id, 0)}
	s := &store{t: t, original: originalOf(t, `[1]`, 0, mine)}
	e, err := s.original.Event()
	must(t, err)
	if of, _, yes := Of(&e); yes {
		t.Errorf("an original is said to be an item of %v", of)
	}
	deliver(options(s))
	if e, err = s.frames[0].Event(); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(bytes.ToLower(e.HeaderBlock()), []byte("x-event-batch")); n != 1 {
		t.Errorf("%d such fields", n)
	}
}

func TestAnItemWithoutRoomForOurFieldGoesWithoutIt(t *testing.T) {
	const taken = len("Content-Type: application/json\r\nX-Signature: of the whole\r\nX-Long: \r\n")
	long := [2]string{"X-Long", strings.Repeat("x", shmabi.HeaderBlockMax-taken-20)}
	original := originalOf(t, `[1]`, 0, long)
	s := &store{t: t, original: original}
	if got := deliver(options(s)); got.Kind != destination.Delivered || len(s.frames) != 1 {
		t.Fatalf("%+v, %d events", got, len(s.frames))
	}
}
