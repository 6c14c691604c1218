package reconcile

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/gaps"
	"sluice/go/internal/provider"
	"sluice/go/internal/store"
	"sluice/go/internal/store/vfs"
)

// begun runs as if the schedule had asked, until its context ends or it does.
func (b *bench) begun(ctx context.Context) Progress {
	b.t.Helper()
	p, err := b.Reconcile(ctx, "it", Ask{alone: true}, b.every)
	must(b.t, err)
	return p
}

func (b *bench) state() state {
	b.t.Helper()
	f, err := openFile(vfs.OS(), filepath.Join(b.dir, "reconcile"), "it")
	must(b.t, err)
	return f.state
}

func TestARunGoesOnWhereItsProcessDied(t *testing.T) {
	s, at := newPayments(t)
	b := newBench(t, "stripe", stripeBlock(at, "      lookback: 24h\n"))
	b.seams.records = 4
	b.serve()
	var all []string
	for i := range 20 {
		all = append(all, fmt.Sprint("evt_", i))
		s.add(all[i], 20*time.Hour-time.Duration(i)*time.Hour, false)
	}
	ctx, kill := context.WithCancel(context.Background())
	s.before = func(http.ResponseWriter, *http.Request) bool {
		if n := len(s.asked); n > 8 {
			kill()
		}
		return false
	}
	if p := b.begun(ctx); p.Error == "" || p.Taken == 0 || p.Taken == 20 {
		t.Fatalf("it was not killed under way: %+v", p)
	}
	before := b.state()
	if before.Run == nil || before.Run.Done <= before.Run.Since || before.Done != 0 {
		t.Fatalf("kept: %+v", before)
	}
	s.before, s.asked = nil, nil
	b.serve()
	if !b.due(&b.o.Targets()[0], b.fileOf("it"), time.Now()) {
		t.Error("it is not due in the next life")
	}
	b.ledger.add(gaps.Gap{Source: "it", From: ago(time.Minute), To: ago(time.Minute), Count: 1,
		Unnamed: 1})
	if p := b.begun(context.Background()); p.Error != "" {
		t.Error(p.Error)
	}
	b.wantStored(all...)
	if got := s.asked[0].Get("created[gte]"); got != fmt.Sprint(timeOf(before.Run.Done).Unix()) {
		t.Errorf("it went on at %s, want %v", got, timeOf(before.Run.Done).Unix())
	}
	after := b.state()
	if after.Run != nil || after.Done != before.Run.Until || after.Last == nil || after.Failed {
		t.Errorf("kept: %+v", after)
	}
}

func TestWhatWasTakenInAndNotNotedIsNotTakenInAgain(t *testing.T) {
	s, at := newPayments(t)
	b := newBench(t, "stripe", stripeBlock(at, ""))
	s.add("evt_1", time.Hour, false)
	must(t, b.fs.Set("full", vfs.Fault{Op: vfs.OpAll, Err: syscall.ENOSPC}))
	want(t, b.reconcile(Ask{}), 1, 0, 1, 0, 0, 0)
	if !strings.Contains(b.log.String(), "not saved") {
		t.Error("nobody is told that it is not saved")
	}
	b.fs.Clear("full")
	must(t, b.store.Close())
	b.open()
	if f := b.fileOf("it"); f.state.Done != 0 {
		t.Fatalf("it was saved: %+v", f.state)
	}
	want(t, b.reconcile(Ask{}), 1, 1, 0, 0, 0, 0)
	b.wantStored("evt_1")
}

func TestAStateThatCannotBeReadBeginsAnew(t *testing.T) {
	s, at := newPayments(t)
	b := newBench(t, "stripe", stripeBlock(at, ""))
	s.add("evt_1", time.Hour, false)
	dir := filepath.Join(b.dir, "reconcile")
	must(t, os.MkdirAll(dir, 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "it.json"), []byte(`{"done_ns":"x`), 0o600))
	want(t, b.reconcile(Ask{}), 1, 0, 1, 0, 0, 0)
	if b.state().Done == 0 {
		t.Error("it is not kept from then on")
	}
}

func TestAnEventThatComesByWebhookInTheSameMomentIsThereOnce(t *testing.T) {
	s, at := newPayments(t)
	b := newBench(t, "stripe", stripeBlock(at, ""))
	b.mu.Lock()
	b.waits = "somebody"
	b.mu.Unlock()
	s.add("evt_1", 2*time.Hour, false)
	s.add("evt_2", time.Hour, false)
	b.every = func(p Progress) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if p.Waiting == "somebody" { // the list was read, and nothing is taken in yet
			b.arrive(record{body: []byte(`{"id":"evt_2"}`)})
			b.waits = ""
		}
	}
	want(t, b.reconcile(Ask{}), 2, 1, 1, 0, 0, 0)
	b.wantStored("evt_2", "evt_1")
	// Even where both looked before either was stored, one of the two repeats the other.
	shelf := newShelf(b.store, b.source)
	for n, duplicates := range []int{0, 1} {
		result, err := shelf.take(context.Background(), []*record{{body: []byte(`{"id":"evt_3"}`)}})
		if must(t, err); result.Duplicates != duplicates {
			t.Errorf("copy %d: %+v", n+1, result)
		}
	}
}

func TestNothingIsTakenInWhileSendersWait(t *testing.T) {
	s, at := newPayments(t)
	b := newBench(t, "stripe", stripeBlock(at, ""))
	s.add("evt_1", time.Hour, false)
	b.waits = "our own admission"
	ctx, cancel := context.WithCancel(context.Background())
	b.every = func(p Progress) {
		if p.Waiting == "our own admission" {
			time.AfterFunc(2*gatePoll, cancel)
		}
	}
	if p := b.begun(ctx); p.Taken != 0 || p.Error == "" {
		t.Errorf("%+v", p)
	}
	b.wantStored()
}

func TestASourceIsReconciledOnceAtATime(t *testing.T) {
	s, at := newPayments(t)
	b := newBench(t, "stripe", stripeBlock(at, ""))
	s.add("evt_1", time.Hour, false)
	var second error
	b.every = func(Progress) {
		if second == nil {
			_, second = b.Reconcile(context.Background(), "it", Ask{}, nil)
		}
	}
	b.reconcile(Ask{})
	if !errors.Is(second, ErrRunning) {
		t.Errorf("the second one: %v", second)
	}
	if p, was := b.Status("it"); !was || p.Taken != 1 || !p.Done {
		t.Errorf("its status: %+v", p)
	}
}

func TestWhatCannotBeAskedForIsRefused(t *testing.T) {
	_, at := newPayments(t)
	b := newBench(t, "stripe", stripeBlock(at, ""))
	for name, c := range map[string]struct {
		source string
		ask    Ask
		err    error
	}{
		"another source":          {"other", Ask{}, ErrUnknown},
		"turned round":            {"it", Ask{Since: ago(time.Hour), Until: ago(2 * time.Hour)}, ErrAsk},
		"the future":              {"it", Ask{Since: ago(-time.Hour)}, ErrAsk},
		"older than what is kept": {"it", Ask{Since: ago(8 * 24 * time.Hour)}, ErrAsk},
	} {
		if _, err := b.Reconcile(context.Background(), c.source, c.ask, nil); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(b.live) > 0 {
		t.Errorf("still under way: %v", b.live)
	}
}

func TestEventsGoInTheirOrderToWhereTheSourceDelivers(t *testing.T) {
	s, at := newPayments(t)
	b := newBench(t, "stripe", stripeBlock(at, ""))
	b.source.OrderKey = func(*provider.Request) uint64 { return 7 }
	for i := range 3 {
		s.add(fmt.Sprint("evt_", i), time.Hour-time.Duration(i)*time.Minute, false)
	}
	b.reconcile(Ask{})
	for i := range 3 {
		leased := b.store.Lease(theDestination, 8, time.Now().Add(time.Second))
		if len(leased) != 1 {
			t.Fatalf("%d are leased at once under one key", len(leased))
		}
		e, err := b.store.Event(leased[0].ID)
		must(t, err)
		if want := fmt.Sprint("evt_", i); e.ProviderID != want {
			t.Errorf("number %d is %s", i, e.ProviderID)
		}
		b.store.Finish(event.Outcome{Seq: leased[0].Seq, Destination: theDestination,
			Kind: event.Done, Attempt: 1, At: time.Now().UnixNano()})
		must(t, b.store.Append(store.Batch{}))
		_, err = b.store.Events(store.Filter{Limit: 1}) // it is applied
		must(t, err)
	}
}

func TestGapsAreClosedWhenEverythingOfThemIsStored(t *testing.T) {
	s, at := newPayments(t)
	b := newBench(t, "stripe", stripeBlock(at, ""))
	s.add("evt_1", 2*time.Hour, false)
	from, to := ago(3*time.Hour), ago(time.Hour)
	add := func(reason string, g gaps.Gap) {
		g.Source, g.Reason, g.From, g.To = "it", reason, from, to
		b.ledger.add(g)
	}
	add("named", gaps.Gap{Count: 2, IDs: []string{"evt_1", "evt_here"}})
	add("bogus", gaps.Gap{Count: 1, IDs: []string{"evt_nobody_has"}})
	add("unnamed", gaps.Gap{Count: 1, Unnamed: 1})
	to = time.Now().Add(time.Hour)
	add("goes on", gaps.Gap{Count: 1, Unnamed: 1})
	b.arrive(record{body: []byte(`{"id":"evt_here"}`)})
	open := func() (names []string) {
		for _, g := range b.ledger.List(gaps.Filter{}) {
			names = append(names, g.Reason)
		}
		return names
	}
	// Stripe tries for three days: what was refused then may be as old.
	p := b.reconcile(Ask{Since: ago(60 * time.Hour)})
	want(t, p, 1, 0, 1, 0, 0, 1)
	if got := open(); !slices.Equal(got, []string{"bogus", "unnamed", "goes on"}) {
		t.Errorf("open: %q", got)
	}
	p = b.reconcile(Ask{Since: ago(76 * time.Hour)})
	want(t, p, 1, 1, 0, 0, 1, 1)
	if got := open(); !slices.Equal(got, []string{"bogus", "goes on"}) {
		t.Errorf("open: %q", got)
	}
}

func TestAGapStaysOpenWhereTheListBrokeOff(t *testing.T) {
	s, at := newPayments(t)
	b := newBench(t, "stripe", stripeBlock(at, ""))
	s.before = func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusForbidden)
		return true
	}
	b.ledger.add(gaps.Gap{Source: "it", From: ago(2 * time.Hour), To: ago(time.Hour), Count: 1,
		Unnamed: 1})
	want(t, b.failed(Ask{Since: ago(80 * time.Hour)}, "restricted key"), 0, 0, 0, 0, 0, 0)
	if st := b.state(); !st.Failed || st.Tried != 0 || st.Run != nil {
		t.Errorf("kept: %+v", st)
	}
}

func TestARunByHandThatAsksForLessLeavesTheRestToTheNextOne(t *testing.T) {
	_, at := newPayments(t)
	b := newBench(t, "stripe", stripeBlock(at, "      lookback: 10h\n"))
	b.reconcile(Ask{Since: ago(time.Hour)})
	if done := b.state().Done; done != 0 {
		t.Errorf("before %v all was dealt with", timeOf(done))
	}
	b.reconcile(Ask{Since: ago(11 * time.Hour)})
	all := b.state().Done
	if all == 0 {
		t.Error("nothing was dealt with")
	}
	b.reconcile(Ask{Since: ago(12 * time.Hour), Until: ago(9 * time.Hour)})
	if done := b.state().Done; done != all {
		t.Errorf("an older stretch moved it to %v", timeOf(done))
	}
}

// noted is what a test of the schedule begins with.
type noted struct {
	state state
	every time.Duration
	gaps  []gaps.Gap
	began time.Duration // the service, so long ago
}

func TestRunsBeginByScheduleAndAfterGaps(t *testing.T) {
	now := time.Now()
	before := func(d time.Duration) int64 { return now.Add(-d).UnixNano() }
	gap := func(d time.Duration) gaps.Gap { return gaps.Gap{From: now.Add(-d), To: now.Add(-d)} }
	long := state{
		Began: before(time.Hour), Ended: before(10 * time.Minute), Tried: before(10 * time.Minute),
	}
	with := func(change func(*state)) state { s := long; change(&s); return s }
	for name, c := range map[string]struct {
		noted
		due bool
	}{
		"nothing": {noted{state: long, every: time.Hour, began: time.Hour}, false},
		"its time": {noted{state: with(func(s *state) { s.Ended = before(2 * time.Hour) }),
			every: time.Hour, began: time.Hour}, true},
		"by hand only": {noted{state: with(func(s *state) { s.Ended = before(2 * time.Hour) }),
			began: time.Hour, gaps: []gaps.Gap{gap(5 * time.Minute)}}, false},
		"one of an earlier life": {noted{state: with(func(s *state) { s.Run = &runState{} }),
			every: time.Hour, began: time.Hour}, true},
		"one by hand of an earlier life": {noted{state: with(func(s *state) { s.Run = &runState{} }),
			began: time.Hour}, true},
		"the first one": {noted{state: state{Began: before(time.Hour)}, every: time.Hour,
			began: 2 * time.Minute}, true},
		"the first one at once": {noted{state: state{Began: before(time.Hour)}, every: time.Hour,
			began: time.Second}, false},
		"the first one of a new source": {noted{state: state{Began: before(time.Second)},
			every: time.Hour, began: time.Hour}, false},
		"a gap that ended": {noted{state: long, every: time.Hour, began: time.Hour,
			gaps: []gaps.Gap{gap(5 * time.Minute)}}, true},
		"a gap that may go on": {noted{state: long, every: time.Hour, began: time.Hour,
			gaps: []gaps.Gap{gap(5 * time.Minute), gap(time.Second)}}, false},
		"a gap that was looked at": {noted{state: long, every: time.Hour, began: time.Hour,
			gaps: []gaps.Gap{gap(20 * time.Minute)}}, false},
		"soon after one that failed": {noted{state: with(func(s *state) {
			s.Failed, s.Ended = true, before(time.Minute)
		}), every: time.Hour, began: time.Hour, gaps: []gaps.Gap{gap(5 * time.Minute)}}, false},
		"a while after one that failed": {noted{state: with(func(s *state) { s.Failed = true }),
			every: time.Hour, began: time.Hour, gaps: []gaps.Gap{gap(5 * time.Minute)}}, true},
	} {
		_, at := newPayments(t)
		b := newBench(t, "stripe", stripeBlock(at, ""))
		b.config.Every, b.Service.began = c.every, now.Add(-c.began)
		for _, g := range c.gaps {
			b.ledger.add(g)
		}
		if got := b.due(&b.o.Targets()[0], &file{state: c.state}, now); got != c.due {
			t.Errorf("%s: due is %v", name, got)
		}
	}
}

func TestARunByItselfAsksForWhatTheLastOneLeftOpen(t *testing.T) {
	now := time.Now()
	_, at := newPayments(t)
	b := newBench(t, "stripe", stripeBlock(at, "      lookback: 80h\n"))
	target := b.o.Targets()[0]
	gap := gaps.Gap{Source: "it", From: now.Add(-2 * time.Hour), To: now.Add(-time.Hour)}
	for name, c := range map[string]struct {
		state  state
		traits traits
		hand   bool
		gaps   []gaps.Gap
		ago    time.Duration
	}{
		"the first one": {traits: traits{failedOnly: true}, ago: 80 * time.Hour},
		"the first one where nobody says what was delivered": {
			state: state{Began: now.Add(-3 * time.Hour).UnixNano()}, ago: 3 * time.Hour},
		"the next one": {state: state{Done: now.Add(-time.Hour).UnixNano()}, ago: time.Hour + overlap},
		"a gap": {state: state{Done: now.Add(-time.Hour).UnixNano()}, gaps: []gaps.Gap{gap},
			ago: 2*time.Hour + time.Minute},
		"a gap of a provider that tries for long": {state: state{Done: now.Add(-time.Hour).UnixNano()},
			gaps: []gaps.Gap{gap}, traits: traits{reach: 72 * time.Hour}, ago: 74*time.Hour + time.Minute},
		"a gap that was looked at": {state: state{Done: now.Add(-time.Hour).UnixNano(),
			Tried: now.UnixNano()}, gaps: []gaps.Gap{gap}, ago: time.Hour + overlap},
		"by hand":           {hand: true, ago: 80 * time.Hour},
		"by hand, of a gap": {hand: true, gaps: []gaps.Gap{gap}, ago: 2*time.Hour + time.Minute},
		"long ago": {state: state{Done: now.Add(-300 * time.Hour).UnixNano()},
			ago: 80 * time.Hour},
	} {
		b.ledger.gaps = c.gaps
		got := b.since(target, &file{state: c.state}, Ask{alone: !c.hand}, c.traits, now)
		if d := now.Sub(got); (d - c.ago).Abs() > time.Second {
			t.Errorf("%s: %v ago, want %v", name, d, c.ago)
		}
	}
}

func TestTheServiceRunsWhatIsDueUntilItEnds(t *testing.T) {
	s, at := newPayments(t)
	b := newBench(t, "stripe", stripeBlock(at, ""))
	s.add("evt_1", time.Hour, false)
	b.Service.began = time.Now().Add(-time.Hour)
	b.fileOf("it").state.Began = ago(time.Hour).UnixNano()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		b.Run(ctx)
		close(ended)
	}()
	for until := time.Now().Add(40 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if p, was := b.Status("it"); was && p.Done {
			break
		}
		if time.Now().After(until) {
			t.Fatal("nothing was reconciled")
		}
	}
	cancel()
	<-ended
	b.wantStored("evt_1")
	if page, err := b.store.Events(store.Filter{}); err != nil || len(page.Items) != 1 {
		t.Errorf("%v %v", page, err)
	}
}
