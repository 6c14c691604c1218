package share

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/go/internal/breaker"
	"sluice/go/internal/testserver"
)

const patience = 60 * time.Second

var quick = timing{beat: 50 * time.Millisecond, presence: 500 * time.Millisecond,
	pauseMin: 10 * time.Millisecond, pauseMax: 50 * time.Millisecond}

// logs are lines that several goroutines write.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

func client(t *testing.T, url string) *redis.Client {
	t.Helper()
	c, err := Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func board(t *testing.T, url, host string, log *logs) *Board {
	t.Helper()
	o := Options{Redis: client(t, url), Prefix: "test", Host: host}
	if log != nil {
		o.Log = slog.New(slog.NewTextHandler(log, nil))
	}
	b, err := start(o, quick)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func joined(t *testing.T, url, host string) *Board {
	t.Helper()
	b := board(t, url, host, nil)
	until(t, host+" has joined", func() bool { return !b.Alone() })
	return b
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never came true: %s", what)
		}
	}
}

func note(name, host string, term uint64, state breaker.State) breaker.Note {
	return breaker.Note{Breaker: name, Host: host, State: state, Term: term}
}

func publish(t *testing.T, b *Board, n breaker.Note) {
	t.Helper()
	if err := b.Publish(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

// next is the note that comes next.
func next(t *testing.T, b *Board) breaker.Note {
	t.Helper()
	select {
	case n := <-b.Notes():
		return n
	case <-time.After(patience):
		t.Fatal("no note comes")
		return breaker.Note{}
	}
}

// lease gets the lease of a probe; what was read from Notes counts as unread for a moment longer.
func lease(t *testing.T, b *Board, name string) (token uint64) {
	t.Helper()
	until(t, b.Host()+" gets the probe", func() bool {
		got, ok, err := b.TryProbe(t.Context(), name, time.Minute)
		token = got
		return ok && err == nil
	})
	return token
}

// quiet tells that nothing waits: a note of another breaker, sent by from, is the next to come.
func quiet(t *testing.T, b, from *Board) {
	t.Helper()
	marker := note("marker"+strconv.Itoa(rand.Int()), from.Host(), 1, breaker.Open)
	publish(t, from, marker)
	if n := next(t, b); n.Breaker != marker.Breaker {
		t.Errorf("%s got %+v, want nothing", b.Host(), n)
	}
}

func TestANoteReachesTheOthersAndNotItsMaker(t *testing.T) {
	server := testserver.Redis(t)
	a, b := joined(t, server.URL, "a"), joined(t, server.URL, "b")
	at := time.Date(2030, 1, 2, 3, 4, 5, 678, time.UTC)
	sent := breaker.Note{Breaker: "orders db", Host: "a", State: breaker.Open, Term: 1<<64 - 1,
		Reason: "5 failures in a row,\nlast: refused", At: at, Until: at.Add(time.Minute),
		Cooldown: time.Minute, Step: 2, Forced: true}
	publish(t, a, sent)
	if got := next(t, b); got != sent {
		t.Errorf("got  %+v\nsent %+v", got, sent)
	}
	quiet(t, a, b)
}

func TestAHostThatStartsLearnsThePresentState(t *testing.T) {
	server := testserver.Redis(t)
	a := joined(t, server.URL, "a")
	publish(t, a, note("x", "a", 1, breaker.Open))
	publish(t, a, note("x", "a", 2, breaker.HalfOpen))
	late := board(t, server.URL, "late", nil)
	if got := next(t, late); got.Term != 2 || got.State != breaker.HalfOpen {
		t.Errorf("learnt %+v", got)
	}
	// What it knew in an earlier life under the same name is news as well.
	again := board(t, server.URL, "a", nil)
	if got := next(t, again); got.Term != 2 {
		t.Errorf("learnt %+v", got)
	}
}

func TestWithoutRedisEachHostGoesOnAloneAndJoinsAgainByItself(t *testing.T) {
	server := testserver.Redis(t)
	var log logs
	a, b := board(t, server.URL, "a", &log), joined(t, server.URL, "b")
	until(t, "a has joined", func() bool { return !a.Alone() })
	publish(t, a, note("kept", "a", 7, breaker.Open))
	next(t, b)
	for round := range uint64(2) {
		server.Kill()
		until(t, "both are alone", func() bool { return a.Alone() && b.Alone() })
		if a.Hosts() != 1 {
			t.Errorf("alone with %d hosts", a.Hosts())
		}
		for _, board := range []*Board{a, b} {
			token, ok, err := board.TryProbe(t.Context(), "x", time.Minute)
			if err != nil || !ok || !Local(token) {
				t.Errorf("probe alone: %d, %v, %v", token, ok, err)
			}
			if err := board.EndProbe(t.Context(), "x", token); err != nil {
				t.Error(err)
			}
		}
		// Each goes its own way; the larger term counts in the end.
		if err := a.Publish(t.Context(), note("x", "a", 10*round+5, breaker.Open)); !errors.Is(err,
			ErrAlone) {
			t.Errorf("publish alone: %v", err)
		}
		_ = b.Publish(t.Context(), note("x", "b", 10*round+6, breaker.Closed))
		server.Start() // empty
		until(t, "both have joined", func() bool { return !a.Alone() && !b.Alone() })
		if got := next(t, a); got.Term != 10*round+6 || got.Host != "b" {
			t.Errorf("a learnt %+v", got)
		}
		token := lease(t, a, "x")
		if Local(token) {
			t.Error("a lease after the return is a local one")
		}
		if err := a.EndProbe(t.Context(), "x", token); err != nil {
			t.Error(err)
		}
	}
	// What was said before Redis lost it is there again.
	c := joined(t, server.URL, "c")
	learnt := map[string]uint64{}
	for range 2 {
		n := next(t, c)
		learnt[n.Breaker] = n.Term
	}
	if learnt["kept"] != 7 || learnt["x"] != 16 {
		t.Errorf("a new host learnt %v", learnt)
	}
	if away, back := log.count("alone"), log.count("share"); away != 2 || back != 3 {
		t.Errorf("%d lines of going, %d of coming; want 2 and 3:\n%s", away, back, log.text.String())
	}
}

func TestARedisThatHangsIsAwayToo(t *testing.T) {
	server := testserver.Redis(t)
	a, b := joined(t, server.URL, "a"), joined(t, server.URL, "b")
	server.Pause()
	until(t, "both are alone", func() bool { return a.Alone() && b.Alone() })
	_ = a.Publish(t.Context(), note("x", "a", 1, breaker.Open))
	server.Resume()
	if got := next(t, b); got.Term != 1 {
		t.Errorf("b learnt %+v", got)
	}
	until(t, "both have joined", func() bool { return !a.Alone() && !b.Alone() })
}

func TestABoardThatStartsWithoutRedisJoinsLater(t *testing.T) {
	server := testserver.Redis(t)
	server.Stop()
	a := board(t, server.URL, "a", nil)
	if _, ok, err := a.TryProbe(t.Context(), "x", time.Second); !ok || err != nil {
		t.Errorf("probe: %v, %v", ok, err)
	}
	server.Start()
	until(t, "it has joined", func() bool { return !a.Alone() })
}

func TestOneOfManyConcurrentProbesWins(t *testing.T) {
	server := testserver.Redis(t)
	boards := []*Board{joined(t, server.URL, "a"), joined(t, server.URL, "b")}
	var last uint64
	for range 10 {
		var won atomic.Int64
		var token atomic.Uint64
		var all sync.WaitGroup
		for i := range 32 {
			all.Go(func() {
				got, ok, err := boards[i%2].TryProbe(t.Context(), "x", time.Minute)
				if err != nil {
					t.Error(err)
				}
				if ok {
					won.Add(1)
					token.Store(got)
				}
			})
		}
		all.Wait()
		if won.Load() != 1 || token.Load() <= last {
			t.Fatalf("%d won, token %d after %d", won.Load(), token.Load(), last)
		}
		if _, ok, _ := boards[0].TryProbe(t.Context(), "y", time.Minute); !ok && last == 0 {
			t.Error("the lease of one breaker holds up another")
		}
		last = token.Load()
		if err := boards[0].EndProbe(t.Context(), "x", last); err != nil {
			t.Fatal(err)
		}
	}
}

func TestALeaseThatIsOverIsAnothersAndKeptByItsToken(t *testing.T) {
	server := testserver.Redis(t)
	a, b := joined(t, server.URL, "a"), joined(t, server.URL, "b")
	old, ok, err := a.TryProbe(t.Context(), "x", time.Millisecond)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	young := lease(t, b, "x")
	if young <= old {
		t.Errorf("token %d after %d", young, old)
	}
	if err := a.EndProbe(t.Context(), "x", old); !errors.Is(err, ErrExpired) {
		t.Errorf("ending an old lease: %v", err)
	}
	if _, ok, _ := a.TryProbe(t.Context(), "x", time.Minute); ok {
		t.Error("the old token freed the young lease")
	}
}

func TestTokensGrowThoughRedisForgets(t *testing.T) {
	server := testserver.Redis(t)
	a := joined(t, server.URL, "a")
	before, _, err := a.TryProbe(t.Context(), "x", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.o.Redis.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	after, ok, err := a.TryProbe(t.Context(), "x", time.Minute)
	if err != nil || !ok || after <= before {
		t.Errorf("token %d after %d; %v, %v", after, before, ok, err)
	}
}

func TestAHostThatIsBehindGetsTheNewsInsteadOfTheProbe(t *testing.T) {
	server := testserver.Redis(t)
	a := joined(t, server.URL, "a")
	// The note lies in the hash and was not published: as if the message were still under way.
	text, err := encode(note("x", "b", 3, breaker.HalfOpen))
	if err != nil {
		t.Fatal(err)
	}
	if err := a.o.Redis.HSet(t.Context(), "test:notes", "x", text).Err(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // not as long as it lies unread either
		if _, ok, err := a.TryProbe(t.Context(), "x", time.Minute); ok || err != nil {
			t.Fatalf("granted: %v, %v", ok, err)
		}
	}
	if got := next(t, a); got.Term != 3 {
		t.Errorf("learnt %+v", got)
	}
	lease(t, a, "x")
}

func TestWhatCannotBeReadIsCountedAndStandsInNobodysWay(t *testing.T) {
	server := testserver.Redis(t)
	a, b := joined(t, server.URL, "a"), joined(t, server.URL, "b")
	ranked := func(term uint64) string { return rank(note("x", "h", term, breaker.Open)) + "\n" }
	strange := []string{
		"", "garbage", "zzz\n{}", strings.Repeat("x", noteMax+1),
		ranked(1) + `{"v":2,"breaker":"x","host":"h","state":"open","term":1}`,
		ranked(1) + `{"v":1,"breaker":"x","host":"h","state":"ajar","term":1}`,
		ranked(9) + `{"v":1,"breaker":"x","host":"h","state":"open","term":1}`,
		strings.Replace(ranked(1), "h", "", 1) +
			`{"v":1,"breaker":"x","host":"","state":"open","term":1}`,
		ranked(1) + `{"v":1,"breaker":"","host":"h","state":"open","term":1}`,
		ranked(1) + `{"v":1,"breaker":"x","host":"h","state":"open","term":1,` +
			`"cooldown_ms":9223372036854775807}`,
		ranked(1) + `{"v":1,"breaker":"x","host":"h","state":"open","term":1,` +
			`"step":-1}`,
	}
	for _, text := range strange {
		if err := a.o.Redis.Publish(t.Context(), "test:notes", text).Err(); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "all are counted", func() bool { return b.Ignored() == uint64(len(strange)) })
	quiet(t, b, a)
	// A note of a later version that would be newer than all of ours.
	if err := a.o.Redis.HSet(t.Context(), "test:notes", "x", "zzz\n{}").Err(); err != nil {
		t.Fatal(err)
	}
	token, ok, err := a.TryProbe(t.Context(), "x", time.Minute)
	if err != nil || !ok {
		t.Errorf("probe: %v, %v", ok, err)
	}
	if err := a.EndProbe(t.Context(), "x", token); err != nil {
		t.Error(err)
	}
	publish(t, a, note("x", "a", 1, breaker.Open))
	if got := next(t, b); got.Breaker != "x" || got.Term != 1 {
		t.Errorf("b learnt %+v", got)
	}
}

func TestASlowReaderFindsTheNewestNoteOfEachBreaker(t *testing.T) {
	server := testserver.Redis(t)
	a, b := joined(t, server.URL, "a"), joined(t, server.URL, "b")
	for term := uint64(1); term <= 100; term++ {
		publish(t, a, note("x", "a", term, breaker.Open))
		publish(t, a, note("y", "a", term, breaker.Open))
	}
	until(t, "b has them", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.newest["x"].Term == 100 && b.newest["y"].Term == 100
	})
	seen := map[string]uint64{}
	for seen["x"] != 100 || seen["y"] != 100 {
		n := next(t, b)
		if n.Term <= seen[n.Breaker] {
			t.Fatalf("term %d behind %d", n.Term, seen[n.Breaker])
		}
		// One may have been on its way out when the newer ones came.
		if n.Term != 100 && seen[n.Breaker] != 0 {
			t.Fatalf("an old note of term %d still came", n.Term)
		}
		seen[n.Breaker] = n.Term
	}
}

func TestANoteThatCouldNotBeToldIsToldAfterAll(t *testing.T) {
	server := testserver.Redis(t)
	a, b := joined(t, server.URL, "a"), joined(t, server.URL, "b")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Publish(ended, note("x", "a", 1, breaker.Open)); err == nil {
		t.Fatal("published under an ended context")
	}
	if got := next(t, b); got.Term != 1 {
		t.Errorf("b learnt %+v", got)
	}
}

func TestANoteThatCouldNotBeToldIsToldAtOnceWhenItIsPublishedAgain(t *testing.T) {
	server := testserver.Redis(t)
	// The usual pace, so that the board itself does not come first.
	a, err := start(Options{Redis: client(t, server.URL), Prefix: "test", Host: "a"}, usual)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	until(t, "a has joined", func() bool { return !a.Alone() })
	n := note("x", "a", 1, breaker.Open)
	a.mu.Lock()
	a.newest["x"], a.unsent["x"] = n, true
	a.mu.Unlock()
	publish(t, a, n)
	if there, err := a.o.Redis.HExists(t.Context(), "test:notes", "x").Result(); err != nil || !there {
		t.Errorf("in Redis: %v, %v", there, err)
	}
}

func TestHostsAreCountedWhileTheyLive(t *testing.T) {
	server := testserver.Redis(t)
	a, b := joined(t, server.URL, "a"), joined(t, server.URL, "b")
	until(t, "both see two", func() bool { return a.Hosts() == 2 && b.Hosts() == 2 })
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	until(t, "the one left sees one", func() bool { return a.Hosts() == 1 })
	if _, ok := <-b.Notes(); ok {
		t.Error("a closed board has notes")
	}
	// One that crashes says no goodbye.
	c := joined(t, server.URL, "c")
	until(t, "a sees c", func() bool { return a.Hosts() == 2 })
	c.cancel()
	until(t, "c is forgotten", func() bool { return a.Hosts() == 1 })
}

// seeded is a generator whose seed is printed; SLUICE_SEED repeats a run.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("SLUICE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SLUICE_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// anyNote is one of few, so that there are equal terms.
func anyNote(random *rand.Rand, name string) breaker.Note {
	hosts := []string{"a", "B", "ä", "a-1", "a1", "~"}
	terms := []uint64{0, 1, 9, 10, 1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<64 - 2, 1<<64 - 1}
	steps := []int{0, 1, 2, 9, 10, 11, stepMax - 1, stepMax}
	n := note(name, hosts[random.IntN(len(hosts))], terms[random.IntN(len(terms))],
		breaker.State(random.IntN(3)))
	n.Forced, n.Step = random.IntN(4) == 0, steps[random.IntN(len(steps))]
	return n
}

func TestTheRankOfANoteIsOrderedAsNotesAre(t *testing.T) {
	random := seeded(t)
	for range 100_000 {
		n, o := anyNote(random, "x"), anyNote(random, "x")
		if got, want := strings.Compare(rank(n), rank(o)), n.Compare(o); got != want {
			t.Fatalf("%q and %q compare as %d; the notes as %d:\n%+v\n%+v", rank(n), rank(o), got,
				want, n, o)
		}
	}
}

func TestTheNewestNoteIsInRedisWhateverTheOrderOfPublishing(t *testing.T) {
	random := seeded(t)
	server := testserver.Redis(t)
	boards := []*Board{joined(t, server.URL, "one"), joined(t, server.URL, "two")}
	for round := range 20 {
		name := fmt.Sprintf("x%d", round)
		var most breaker.Note
		for i := range 30 {
			n := anyNote(random, name)
			if i == 0 || newer(n, most) {
				most = n
			}
			// Straight into Redis: the board's own knowledge would keep old ones back.
			if err := boards[random.IntN(2)].send(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		text, err := boards[0].o.Redis.HGet(t.Context(), "test:notes", name).Result()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := decode(text); err != nil || got.Compare(most) != 0 {
			t.Fatalf("in Redis lies %+v, %v; the newest is %+v", got, err, most)
		}
	}
}

func TestARedisThatHangsUpIsNotAskedInABusyLoop(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var accepted atomic.Int64
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			conn.Close()
		}
	}()
	var log logs
	b, err := New(Options{Redis: client(t, "redis://"+listener.Addr().String()), Prefix: "test",
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	began := time.Now()
	until(t, "it tried", func() bool { return accepted.Load() > 2 })
	<-time.After(time.Second)
	// Pauses of at least 50 ms, and few connections in each attempt.
	if n, most := accepted.Load(), 4*(2+time.Since(began).Milliseconds()/50); n > most {
		t.Errorf("%d connections in %v", n, time.Since(began))
	}
	if n := log.count("alone"); n != 1 {
		t.Errorf("%d lines in the log, want one:\n%s", n, log.text.String())
	}
}

func TestErrorsHoldNoPassword(t *testing.T) {
	const secret = "hunter2"
	for _, url := range []string{"redis://u:" + secret + "@h:notaport/0", secret + "://x",
		"redis://u:" + secret + "@h/" + secret, "redis://:" + secret + "@h\x7f"} {
		if _, err := Connect(url); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%v", err)
		}
	}
	server := testserver.Redis(t, "--requirepass", "other")
	var log logs
	b := board(t, "redis://:"+secret+"@"+server.Addr, "a", &log)
	until(t, "it was refused", func() bool { return log.count("alone") > 0 })
	if !b.Alone() || log.count(secret) > 0 || log.count("WRONGPASS") == 0 {
		t.Errorf("log: %s", log.text.String())
	}
	ok := board(t, "redis://:other@"+server.Addr, "a", nil)
	until(t, "the right one joins", func() bool { return !ok.Alone() })
}

func TestANoteThatMakesNoSenseIsRefused(t *testing.T) {
	server := testserver.Redis(t)
	b := joined(t, server.URL, "a")
	for _, n := range []breaker.Note{
		{}, {Breaker: strings.Repeat("x", nameMax+1)}, {Breaker: "x", State: 9},
		{Breaker: "x", Step: -1}, {Breaker: "x", Cooldown: -1}, {Breaker: "x", Host: "a\nb"},
	} {
		if err := b.Publish(context.Background(), n); err == nil {
			t.Errorf("published %+v", n)
		}
	}
	if _, _, err := b.TryProbe(t.Context(), "x", 0); err == nil {
		t.Error("a lease of no time was granted")
	}
	long := note("x", "", 1, breaker.Open)
	long.Reason = strings.Repeat("ä", reasonMax)
	publish(t, b, long)
}
