package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"sluice/go/internal/config"
	"sluice/go/internal/event"
	"sluice/go/internal/store"
	pb "sluice/proto/sluice/v1"
	"sluice/shm-abi/shmabi"
)

// all reads a stream to its end.
func all[T any](t *testing.T, stream grpc.ServerStreamingClient[T], err error) []*T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var list []*T
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
	}
}

func refused(t *testing.T, err error, code codes.Code, text string) {
	t.Helper()
	if status.Code(err) != code || !strings.Contains(status.Convert(err).Message(), text) {
		t.Errorf("%v, want %v with %q", err, code, text)
	}
}

func (b *bench) events(f *pb.EventFilter, limit uint32) []*pb.Event {
	b.t.Helper()
	stream, err := b.ListEvents(b.t.Context(), &pb.ListEventsRequest{Filter: f, Limit: limit})
	return all(b.t, stream, err)
}

func TestEventsAreListedNewestFirstAcrossPages(t *testing.T) {
	b := newBench(t, nil)
	const n = 2*pageEvents + 3
	ids := b.take(1, n)
	list := b.events(nil, 0)
	if len(list) != n {
		t.Fatalf("%d events, want %d", len(list), n)
	}
	for i, e := range list {
		if want := ids[n-1-i].String(); e.GetId() != want {
			t.Fatalf("event %d is %s, want %s", i, e.GetId(), want)
		}
	}
	for _, limit := range []int{1, pageEvents, pageEvents + 1, n, n + 1} {
		if got := len(b.events(nil, uint32(limit))); got != min(limit, n) {
			t.Errorf("limit %d gives %d", limit, got)
		}
	}
	e := list[0]
	if e.GetSource() != "github" || e.GetState() != "pending" || e.GetSize() != 9 ||
		e.GetProviderId() != fmt.Sprintf("evt-%d", n-1) ||
		e.GetReceivedNs() != began.Add((n-1)*time.Second).UnixNano() ||
		len(e.GetDestinations()) != 1 || e.GetDestinations()[0].GetName() != "billing" {
		t.Errorf("a line is %v", e)
	}
}

func TestAnEventsStateIsItsLeastFinishedDestinations(t *testing.T) {
	b := newBench(t, nil)
	b.take(2, 1)
	b.finish(1, event.Done)
	if e := b.events(nil, 0)[0]; e.GetState() != "pending" {
		t.Errorf("delivered to one of two: %v", e)
	}
	b.finish(2, event.Retry)
	e := b.events(nil, 0)[0]
	if e.GetState() != "retrying" || e.GetDestinations()[0].GetState() != "delivered" {
		t.Errorf("one delivered, one retrying: %v", e)
	}
	d := e.GetDestinations()[1]
	if d.GetName() != "archive" || d.GetAttempts() != 1 || d.GetLastError() == "" ||
		d.GetNextAttemptNs() != began.Add(time.Hour+time.Minute).UnixNano() {
		t.Errorf("the retry is %v", d)
	}
}

func TestFiltersHoldTogether(t *testing.T) {
	b := newBench(t, nil)
	first := b.take(1, 3)
	second := b.take(2, 2)
	b.finish(2, event.Dead)
	at := func(i int) int64 { return began.Add(time.Duration(i) * time.Second).UnixNano() }
	for _, c := range []struct {
		name   string
		filter *pb.EventFilter
		want   []event.ID
	}{
		{"source", &pb.EventFilter{Source: "stripe"}, []event.ID{second[1], second[0]}},
		{"destination", &pb.EventFilter{Destination: "archive"}, []event.ID{second[1], second[0]}},
		{"since", &pb.EventFilter{SinceNs: at(4)}, []event.ID{second[1]}},
		{"until", &pb.EventFilter{UntilNs: at(1)}, []event.ID{first[0]}},
		{"both", &pb.EventFilter{SinceNs: at(1), UntilNs: at(2)}, []event.ID{first[1]}},
		{"provider's id", &pb.EventFilter{ProviderId: "evt-2"}, []event.ID{first[2]}},
		{"state", &pb.EventFilter{State: "dead"}, nil},
		{"ids, in whatever order", &pb.EventFilter{
			Ids: []string{first[0].String(), second[0].String(), first[0].String()},
		}, []event.ID{second[0], first[0]}},
		{"id and source", &pb.EventFilter{Ids: []string{first[0].String()}, Source: "stripe"}, nil},
	} {
		var got []event.ID
		for _, e := range b.events(c.filter, 0) {
			id, err := event.ParseID(e.GetId())
			b.must(err)
			got = append(got, id)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func TestAWrongFilterIsTheCallersFault(t *testing.T) {
	b := newBench(t, nil)
	list := func(f *pb.EventFilter) error {
		stream, err := b.ListEvents(t.Context(), &pb.ListEventsRequest{Filter: f})
		b.must(err)
		_, err = stream.Recv()
		return err
	}
	bad := codes.InvalidArgument
	refused(t, list(&pb.EventFilter{Source: "gitlab"}), bad,
		`no source "gitlab"; there are github, stripe`)
	refused(t, list(&pb.EventFilter{Destination: "x"}), bad, "there are archive, billing")
	refused(t, list(&pb.EventFilter{State: "lost"}), bad, "want pending")
	refused(t, list(&pb.EventFilter{Ids: []string{"short"}}), bad, "want 26 characters")
	refused(t, list(&pb.EventFilter{SinceNs: 2, UntilNs: 1}), bad, "since is not before until")
	refused(t, list(&pb.EventFilter{Ids: make([]string, idsMax+1)}), bad, "use a filter")
	_, err := b.GetEvent(t.Context(), &pb.GetEventRequest{Id: "x"})
	refused(t, err, bad, "26")
	_, err = b.ReplayEvents(t.Context(), &pb.ReplayEventsRequest{
		Filter: &pb.EventFilter{State: "duplicate"},
	})
	refused(t, err, bad, "duplicate")
	b.facts.Destinations = []Destination{{Name: "billing"}}
	for to, says := range map[string]string{"archive": "config no more", "x": "no destination"} {
		_, err = b.ReplayEvents(t.Context(), &pb.ReplayEventsRequest{Destination: to})
		refused(t, err, bad, says)
		_, err = b.ReplayDeadLetters(t.Context(), &pb.DeadLettersRequest{Destination: to})
		refused(t, err, bad, says)
	}
	for _, rate := range []float64{-1, 0.0001, 1e9, math.NaN(), math.Inf(1)} {
		_, err = b.ReplayEvents(t.Context(), &pb.ReplayEventsRequest{Rate: rate})
		refused(t, err, bad, "0.001 to 1000000")
	}
	_, err = b.DropDeadLetters(t.Context(), &pb.DropDeadLettersRequest{Reason: " "})
	refused(t, err, bad, "reason")
	_, err = b.ReplayDeadLetters(t.Context(), &pb.DeadLettersRequest{
		Filter: &pb.EventFilter{State: "delivered"},
	})
	refused(t, err, bad, "dead letter's state is dead")
}

func TestAnEventIsShownWhole(t *testing.T) {
	b := newBench(t, nil)
	id := b.take(1, 1)[0]
	b.finish(1, event.Retry)
	e, err := b.GetEvent(t.Context(), &pb.GetEventRequest{Id: strings.ToLower(id.String())})
	b.must(err)
	if e.GetMethod() != "POST" || e.GetTarget() != "/hooks/one?x=1" ||
		e.GetPeer() != "192.0.2.1:4000" || e.GetAcknowledge() != "durable" ||
		e.GetSecretIndex() != 1 || string(e.GetBody()) != `{"n":0}` ||
		e.GetEvent().GetId() != id.String() {
		t.Errorf("the event is %v", e)
	}
	var headers []string
	for _, h := range e.GetHeaders() {
		headers = append(headers, string(h.GetName())+"="+string(h.GetValue()))
	}
	if want := []string{"X-Id=evt-0", "X-Raw=\xff"}; !slices.Equal(headers, want) {
		t.Errorf("headers are %q", headers)
	}
	if len(e.GetAttempts()) != 1 {
		t.Fatalf("attempts are %v", e.GetAttempts())
	}
	a := e.GetAttempts()[0]
	if a.GetDestination() != "billing" || a.GetOutcome() != "retry" || a.GetAttempt() != 1 ||
		a.GetCode() != 503 || a.GetError() == "" || a.GetAtNs() == 0 || a.GetNextNs() <= a.GetAtNs() {
		t.Errorf("the attempt is %v", a)
	}
	_, err = b.GetEvent(t.Context(), &pb.GetEventRequest{Id: event.ID{9}.String()})
	refused(t, err, codes.NotFound, "no such event")
}

func TestATailBeginsWithWhatComesAfterIt(t *testing.T) {
	b := newBench(t, nil)
	b.take(1, 2)
	stream, err := b.TailEvents(t.Context(), &pb.TailEventsRequest{Source: "stripe"})
	b.must(err)
	_, err = stream.Header() // it has begun
	b.must(err)
	b.take(1, 1)
	id := b.take(2, 1)[0]
	e, err := stream.Recv()
	b.must(err)
	if e.GetId() != id.String() || e.GetSource() != "stripe" {
		t.Errorf("the tail gives %v, want %s", e, id)
	}
	b.service.Close()
	_, err = stream.Recv()
	refused(t, err, codes.Unavailable, "stopping")
}

func TestAReplayCountsFirstAndRecordsWhoAsked(t *testing.T) {
	b := newBench(t, nil)
	b.facts.Destinations = []Destination{{Name: "archive"}}
	id := b.take(2, 1)[0]
	b.take(1, 1)
	b.finish(1, event.Done)
	b.finish(2, event.Dead)
	b.commit()
	request := &pb.ReplayEventsRequest{
		Filter: &pb.EventFilter{Source: "stripe"}, Destination: "archive", DryRun: true, By: "alice",
	}
	reply, err := b.ReplayEvents(t.Context(), request)
	b.must(err)
	if reply.GetEvents() != 1 || reply.GetDeliveries() != 1 {
		t.Errorf("a dry run gives %v", reply)
	}
	if e := b.events(&pb.EventFilter{Source: "stripe"}, 0)[0]; e.GetState() != "dead" {
		t.Errorf("a dry run changed %v", e)
	}
	request.DryRun = false
	reply, err = b.ReplayEvents(t.Context(), request)
	b.must(err)
	if reply.GetEvents() != 1 || reply.GetDeliveries() != 1 {
		t.Errorf("the replay gives %v", reply)
	}
	e, err := b.GetEvent(t.Context(), &pb.GetEventRequest{Id: id.String()})
	b.must(err)
	last := e.GetAttempts()[len(e.GetAttempts())-1]
	if e.GetEvent().GetState() != "pending" || last.GetOutcome() != "replay" ||
		last.GetBy() != "alice" || last.GetDestination() != "archive" {
		t.Errorf("after the replay: %v", e)
	}
}

// due is when the deliveries of a listing are tried, less the time of the store's clock.
func (b *bench) due(destination string) (waits []time.Duration) {
	for _, e := range b.events(nil, 0) {
		for _, d := range e.GetDestinations() {
			if d.GetName() == destination && d.GetNextAttemptNs() != 0 {
				at := time.Unix(0, d.GetNextAttemptNs())
				waits = append(waits, at.Sub(began.Add(time.Hour)))
			}
		}
	}
	return waits
}

func TestAReplayGoesElsewhereAndAtItsRate(t *testing.T) {
	b := newBench(t, nil)
	b.facts.Destinations = []Destination{{Name: "archive"}, {Name: "billing"}}
	ids := b.take(1, 5) // to billing alone
	b.finish(1, event.Done)
	b.commit()
	filter := &pb.EventFilter{Destination: "billing"}
	// The ids pick the oldest three, in whatever order they are named.
	for _, i := range []int{1, 0, 2} {
		filter.Ids = append(filter.Ids, ids[i].String())
	}
	request := &pb.ReplayEventsRequest{Filter: filter, Destination: "archive", Rate: 2, DryRun: true}
	for _, dry := range []bool{true, false} {
		request.DryRun = dry
		reply, err := b.ReplayEvents(t.Context(), request)
		b.must(err)
		if reply.GetEvents() != 3 || reply.GetDeliveries() != 3 {
			t.Errorf("dry %t: %v", dry, reply)
		}
	}
	want := []time.Duration{time.Second, time.Second / 2, 0} // newest first
	if got := b.due("archive"); !slices.Equal(got, want) {
		t.Errorf("due after %v, want %v", got, want)
	}
	if got := b.due("billing"); len(got) != 0 {
		t.Errorf("billing has %v", got)
	}
	// What waits there already is left alone.
	reply, err := b.ReplayEvents(t.Context(), request)
	b.must(err)
	if reply.GetEvents() != 0 || reply.GetDeliveries() != 0 {
		t.Errorf("again: %v", reply)
	}
}

func TestADeadLetterThatIsReplayedElsewhereStays(t *testing.T) {
	b := newBench(t, nil)
	b.facts.Destinations = []Destination{{Name: "archive"}, {Name: "billing"}}
	ids := b.take(1, 3)
	b.finish(1, event.Dead)
	b.commit()
	request := &pb.DeadLettersRequest{
		Filter: &pb.EventFilter{Ids: []string{ids[2].String(), ids[0].String()}},
		Rate:   10, Destination: "archive",
	}
	for _, dry := range []bool{true, false} {
		request.DryRun = dry
		reply, err := b.ReplayDeadLetters(t.Context(), request)
		b.must(err)
		if reply.GetEvents() != 2 || reply.GetDeliveries() != 2 {
			t.Errorf("dry %t: %v", dry, reply)
		}
	}
	stream, err := b.ListDeadLetters(t.Context(), &pb.ListDeadLettersRequest{})
	if left := all(t, stream, err); len(left) != 3 {
		t.Errorf("%d dead letters are left of 3", len(left))
	}
	if got := b.due("archive"); !slices.Equal(got, []time.Duration{time.Second / 10, 0}) {
		t.Errorf("due after %v", got)
	}
}

func TestDeadLettersAreReplayedAndDropped(t *testing.T) {
	b := newBench(t, nil)
	ids := b.take(2, 3)
	b.finish(1, event.Dead)
	b.finish(2, event.Dead)
	b.commit()
	list := func() []*pb.DeadLetter {
		stream, err := b.ListDeadLetters(t.Context(), &pb.ListDeadLettersRequest{})
		return all(t, stream, err)
	}
	letters := list()
	if len(letters) != 6 {
		t.Fatalf("%d dead letters, want 6", len(letters))
	}
	if d := letters[0]; d.GetId() != ids[2].String() || d.GetSource() != "stripe" ||
		d.GetAttempts() != 1 || d.GetLastError() == "" || d.GetDeadNs() == 0 {
		t.Errorf("a dead letter is %v", d)
	}
	stream, err := b.ListDeadLetters(t.Context(), &pb.ListDeadLettersRequest{Limit: 4})
	if got := len(all(t, stream, err)); got != 4 {
		t.Errorf("limit 4 gives %d", got)
	}
	one := &pb.EventFilter{Ids: []string{ids[0].String()}}
	dry, err := b.ReplayDeadLetters(t.Context(), &pb.DeadLettersRequest{DryRun: true})
	b.must(err)
	if dry.GetEvents() != 3 || dry.GetDeliveries() != 6 {
		t.Errorf("a dry run gives %v", dry)
	}
	replayed, err := b.ReplayDeadLetters(t.Context(), &pb.DeadLettersRequest{Filter: one, By: "bob"})
	b.must(err)
	if replayed.GetEvents() != 1 || replayed.GetDeliveries() != 2 || len(list()) != 4 {
		t.Errorf("replayed %v, %d are left", replayed, len(list()))
	}
	drop := &pb.DropDeadLettersRequest{
		Filter: &pb.EventFilter{Destination: "archive"}, Reason: "sent by hand", DryRun: true,
	}
	dropped, err := b.DropDeadLetters(t.Context(), drop)
	b.must(err)
	if dropped.GetDeliveries() != 2 || len(list()) != 4 {
		t.Errorf("a dry run of drop gives %v, %d are left", dropped, len(list()))
	}
	drop.DryRun = false
	dropped, err = b.DropDeadLetters(t.Context(), drop)
	b.must(err)
	if dropped.GetDeliveries() != 2 || len(list()) != 2 {
		t.Errorf("dropped %v, %d are left", dropped, len(list()))
	}
}

func TestStatusJoinsFactsAndStore(t *testing.T) {
	b := newBench(t, nil)
	b.take(1, 2)
	b.take(2, 1)
	b.finish(2, event.Dead)
	b.facts = Facts{
		Ready: true, Generation: 3, ConfigVersion: 2, Uptime: 90 * time.Second,
		Listeners: []string{"127.0.0.1:8080"},
		Admission: Admission{
			Limit: 9, Inflight: 8, Held: 7, Overloaded: true,
			OverloadedClasses: []string{"repeat", "low_over_share"},
		},
		Sources: []Source{{Name: "github", Duplicates: 4, Unauthorized: 5, Refused: 6,
			RefusedInRow: 3, Guarded: true}},
		// archive was taken out of the config and has a dead letter still.
		Destinations: []Destination{{Name: "billing", Breaker: "open", Inflight: 2, Limit: 4}},
		DataPlane:    DataPlane{Pid: 7, Driver: "io_uring", Restarts: 1},
	}
	// The store looks at its space once in a while only, and applies outcomes behind the journal.
	s := &pb.Status{}
	seen := func() bool {
		for _, d := range s.GetDestinations() {
			if d.GetDead() == 1 {
				return s.GetJournal().GetOldestS() > 0
			}
		}
		return false
	}
	for deadline := time.Now().Add(10 * time.Second); !seen(); {
		var err error
		s, err = b.GetStatus(t.Context(), &pb.GetStatusRequest{})
		b.must(err)
		if time.Now().After(deadline) {
			t.Fatalf("neither the oldest event nor the dead letter is ever seen: %v", s)
		}
	}
	sources, destinations := s.GetSources(), s.GetDestinations()
	if len(sources) != 2 || sources[0].GetAccepted() != 2 || sources[0].GetDuplicates() != 4 ||
		sources[0].GetUnauthorized() != 5 || sources[0].GetRefused() != 6 ||
		sources[0].GetRefusedInRow() != 3 || !sources[0].GetGuarded() ||
		sources[1].GetName() != "stripe" || sources[1].GetAccepted() != 1 || sources[1].GetGuarded() {
		t.Errorf("sources are %v", sources)
	}
	if len(destinations) != 2 || destinations[0].GetBreaker() != "open" ||
		destinations[0].GetBacklog() != 3 || destinations[0].GetOldestS() != 3600 ||
		destinations[0].GetInflight() != 2 || destinations[0].GetLimit() != 4 ||
		destinations[1].GetName() != "archive" || destinations[1].GetDead() != 1 {
		t.Errorf("destinations are %v", destinations)
	}
	if a := s.GetAdmission(); a.GetLimit() != 9 || a.GetInflight() != 8 || a.GetHeld() != 7 ||
		!a.GetOverloaded() ||
		!slices.Equal(a.GetOverloadedClasses(), []string{"repeat", "low_over_share"}) {
		t.Errorf("admission is %v", a)
	}
	j := s.GetJournal()
	if !j.GetWritable() || j.GetEvents() != 3 || j.GetOldestS() != 3600 || j.GetBytes() == 0 {
		t.Errorf("the journal is %v", j)
	}
	if s.GetVersion() != "v1" || s.GetUptimeS() != 90 || !s.GetReady() ||
		s.GetDataplane().GetPid() != 7 {
		t.Errorf("the status is %v", s)
	}
}

func TestAStatusIsSentEachInterval(t *testing.T) {
	b := newBench(t, nil)
	stream, err := b.WatchStatus(t.Context(), &pb.WatchStatusRequest{IntervalMs: 1})
	b.must(err)
	for range 3 {
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestALimitIsPinnedAndLetGo(t *testing.T) {
	b := newBench(t, nil)
	l, err := b.SetLimit(t.Context(), &pb.SetLimitRequest{Limit: 8})
	b.must(err)
	if l.GetLimit() != 8 || l.GetPinnedUntilNs() != began.Add(10*time.Minute).UnixNano() {
		t.Errorf("pinned: %v", l)
	}
	_, err = b.SetLimit(t.Context(), &pb.SetLimitRequest{Limit: 1000})
	refused(t, err, codes.InvalidArgument, "between 2 and 64")
	_, err = b.SetLimit(t.Context(), &pb.SetLimitRequest{Limit: 8, ForNs: -1})
	refused(t, err, codes.InvalidArgument, "up to 24h0m0s")
	l, err = b.ResetLimit(t.Context(), &pb.ResetLimitRequest{})
	b.must(err)
	if l.GetLimit() != 16 || l.GetPinnedUntilNs() != 0 {
		t.Errorf("let go: %v", l)
	}
	if l, err = b.GetLimits(t.Context(), &pb.GetLimitsRequest{}); err != nil ||
		l.GetAlgorithm() != "fixed" || l.GetHoldBudgetNs() != 1e9 {
		t.Errorf("limits: %v %v", l, err)
	}
}

func TestLimitsSayWhatTheControllerGoesBy(t *testing.T) {
	b := newBench(t, nil)
	b.pin.more = Limits{
		Base: 15.25, ServiceTime: 4 * time.Millisecond, Throughput: 812.5,
		HoldBound: 10 * time.Millisecond, ShareRate: 40.5, Inflight: 14, Held: 3,
		Changes: []LimitChange{
			{At: began.Add(time.Second), From: 16, To: 15.25, Reason: "slope"},
			{At: began, From: 20, To: 16, Reason: "drops"},
		},
	}
	l, err := b.GetLimits(t.Context(), &pb.GetLimitsRequest{})
	b.must(err)
	if l.GetBase() != 15.25 || l.GetServiceTimeNs() != 4e6 || l.GetThroughput() != 812.5 ||
		l.GetHoldBoundNs() != 1e7 || l.GetShareRate() != 40.5 || l.GetInflight() != 14 ||
		l.GetHeld() != 3 {
		t.Errorf("limits are %v", l)
	}
	changes := l.GetChanges()
	if len(changes) != 2 || changes[0].GetReason() != "slope" || changes[0].GetFrom() != 16 ||
		changes[0].GetTo() != 15.25 || changes[0].GetAtNs() != began.Add(time.Second).UnixNano() ||
		changes[1].GetReason() != "drops" {
		t.Errorf("changes are %v", changes)
	}
}

func TestErrorsSayWhoseTheyAre(t *testing.T) {
	reload := error(nil)
	drain := error(nil)
	var broken brokenStore
	b := newBench(t, func(o *Options) {
		o.Reload = func(context.Context) (uint32, error) { return 0, reload }
		o.Drain = func() error { return drain }
		broken.Store = o.Store
		o.Store = &broken
	})
	for _, c := range []struct {
		err  error
		code codes.Code
	}{
		{config.Faults{{File: "sluice.yaml", Line: 3, Problem: "no"}}, codes.InvalidArgument},
		{fmt.Errorf("%w: workers cannot change", ErrRefused), codes.InvalidArgument},
		{fmt.Errorf("reload: %w", ErrNotNow), codes.FailedPrecondition},
		{errors.New("the data plane is silent"), codes.Internal},
	} {
		reload = c.err
		_, err := b.Reload(t.Context(), &pb.ReloadRequest{})
		refused(t, err, c.code, c.err.Error())
	}
	drain = fmt.Errorf("%w: it drains already", ErrNotNow)
	_, err := b.Drain(t.Context(), &pb.AdminDrainRequest{})
	refused(t, err, codes.FailedPrecondition, "it drains already")
	for _, c := range []struct {
		err  error
		code codes.Code
	}{
		{store.ErrClosed, codes.Unavailable},
		{store.ErrNotSettled, codes.Unavailable},
		{fmt.Errorf("read: %w", shmabi.ErrFrame), codes.DataLoss},
		{errors.New("index engine"), codes.Internal},
		{context.Canceled, codes.Canceled},
	} {
		broken.err = c.err
		stream, err := b.ListEvents(t.Context(), &pb.ListEventsRequest{})
		b.must(err)
		_, err = stream.Recv()
		refused(t, err, c.code, c.err.Error())
		_, err = b.GetEvent(t.Context(), &pb.GetEventRequest{Id: event.ID{1}.String()})
		refused(t, err, c.code, c.err.Error())
		_, err = b.ReplayDeadLetters(t.Context(), &pb.DeadLettersRequest{})
		refused(t, err, c.code, c.err.Error())
	}
}

// brokenStore fails as it is told to.
type brokenStore struct {
	Store
	err error
}

func (s *brokenStore) Events(store.Filter) (store.Page[store.Event], error) {
	return store.Page[store.Event]{}, s.err
}

func (s *brokenStore) Event(event.ID) (store.Detail, error) { return store.Detail{}, s.err }

func (s *brokenStore) DeadLetters(store.Filter) (store.Page[store.DeadLetter], error) {
	return store.Page[store.DeadLetter]{}, s.err
}

func TestHealthFollowsReadiness(t *testing.T) {
	b := newBench(t, nil)
	health := grpc_health_v1.NewHealthClient(b.conn)
	check := func(name string) (grpc_health_v1.HealthCheckResponse_ServingStatus, error) {
		r, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: name})
		return r.GetStatus(), err
	}
	if s, err := check(""); s != grpc_health_v1.HealthCheckResponse_NOT_SERVING || err != nil {
		t.Errorf("not ready: %v %v", s, err)
	}
	b.facts.Ready = true
	s, err := check("sluice.v1.Admin")
	if s != grpc_health_v1.HealthCheckResponse_SERVING || err != nil {
		t.Errorf("ready: %v %v", s, err)
	}
	_, err = check("other")
	refused(t, err, codes.NotFound, "other")
	stream, err := health.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	b.must(err)
	first, err := stream.Recv()
	b.must(err)
	if first.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("a watch begins with %v", first)
	}
}
