package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/go/internal/event"
	"sluice/go/internal/gaps"
	"sluice/go/internal/store"
	"sluice/shm-abi/shmabi"
)

// octo speaks GitHub's REST API for one webhook's deliveries: docs.github.com, REST API endpoints
// for repository webhooks (list, get, redeliver), pagination by the Link header.
type octo struct {
	t   testing.TB
	url string

	mu         sync.Mutex
	deliveries []delivery // the newest first
	pageSize   int
	asked      []string // method and path with query
	again      []string // guids that were asked for again
	// before may answer in GitHub's place.
	before func(w http.ResponseWriter, r *http.Request) bool
	// resent hears of a redelivery.
	resent func(d delivery)
}

type delivery struct {
	id     int
	guid   string
	at     time.Time
	status int
}

const octoHook = "/repos/octo/orders/hooks/42/deliveries"

func newOcto(t testing.TB) *octo {
	o := &octo{t: t, pageSize: 2}
	o.url = served(t, httptest.NewServer(o))
	return o
}

// add adds a delivery that is younger than those before.
func (o *octo) add(guid string, age time.Duration, status int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	d := delivery{1<<53*2 + len(o.deliveries), guid, ago(age), status}
	o.deliveries = slices.Insert(o.deliveries, 0, d)
}

func (o *octo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = append(o.asked, r.Method+" "+r.URL.String())
	if o.before != nil && o.before(w, r) {
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+theToken {
		http.Error(w, `{"message":"Bad credentials"}`, http.StatusUnauthorized)
		return
	}
	rest, found := strings.CutPrefix(r.URL.Path, octoHook)
	switch {
	case !found:
		http.Error(w, `{"message":"Not Found"}`, http.StatusNotFound)
	case rest == "":
		o.list(w, r)
	default:
		o.one(w, r, strings.Split(rest, "/")[1:])
	}
}

func (o *octo) list(w http.ResponseWriter, r *http.Request) {
	from := 0
	if cursor := r.URL.Query().Get("cursor"); cursor != "" {
		from, _ = strconv.Atoi(cursor)
	}
	size, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
	size = min(size, o.pageSize)
	to := min(from+size, len(o.deliveries))
	var list []map[string]any
	for _, d := range o.deliveries[from:to] {
		list = append(list, map[string]any{
			"id": d.id, "guid": d.guid, "delivered_at": d.at.Format(time.RFC3339), "status": "x",
			"status_code": d.status, "event": "push", "redelivery": false, "duration": 0.27,
		})
	}
	if to < len(o.deliveries) {
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?per_page=%d&cursor=%d>; rel="next", <%s>; rel="first"`,
			o.url, octoHook, size, to, o.url))
	}
	must(o.t, json.NewEncoder(w).Encode(list))
}

func (o *octo) one(w http.ResponseWriter, r *http.Request, path []string) {
	id, _ := strconv.Atoi(path[0])
	i := slices.IndexFunc(o.deliveries, func(d delivery) bool { return d.id == id })
	if i < 0 {
		http.Error(w, `{"message":"Not Found"}`, http.StatusNotFound)
		return
	}
	d := o.deliveries[i]
	if len(path) == 2 && r.Method == http.MethodPost && path[1] == "attempts" {
		o.again = append(o.again, d.guid)
		w.WriteHeader(http.StatusAccepted)
		_, _ = w.Write([]byte("{}"))
		if o.resent != nil {
			o.resent(d)
		}
		return
	}
	must(o.t, json.NewEncoder(w).Encode(map[string]any{
		"id": d.id, "guid": d.guid, "request": map[string]any{
			"headers": map[string]any{
				"X-GitHub-Delivery": d.guid, "X-GitHub-Event": "push", "Content-Type": "application/json",
				"X-Hub-Signature-256": "sha256=00", "User-Agent": "GitHub-Hookshot/1", "Accept": "*/*",
				"Host": "x", "Content-Length": "12",
			},
			"payload": map[string]any{"ref": "refs/heads/" + d.guid},
		},
		"response": map[string]any{"headers": map[string]any{}, "payload": "ok"},
	}))
}

func (o *octo) block(more string) string {
	return fmt.Sprintf("      url: %s\n      token: %s\n      hook: repos/octo/orders/hooks/42\n%s",
		o.url, theToken, more)
}

func guid(id string) record {
	return record{headers: [][2]string{{"X-GitHub-Delivery", id}, {"X-GitHub-Event", "push"}},
		body: []byte("{}")}
}

func TestWhatGitHubFailedToDeliverIsAskedForAgainTheOldestFirst(t *testing.T) {
	o := newOcto(t)
	b := newBench(t, "github", o.block(""))
	for _, id := range []string{"before-2", "before-1", "before"} {
		o.add(id, 80*time.Hour, 503)
	}
	o.add("first", 3*time.Hour, 503)
	o.add("second", 2*time.Hour, 0)
	o.add("delivered", 90*time.Minute, 200)
	o.add("here", time.Hour, 504) // its answer was late
	o.add("later", time.Minute*50, 503)
	o.add("later", time.Minute*40, 202) // somebody had it sent again
	b.arrive(guid("here"))
	from := ago(3*time.Hour + time.Minute)
	b.ledger.add(gaps.Gap{Source: "it", Reason: "journal", From: from, To: ago(time.Hour),
		Count: 3, IDs: []string{"first", "here"}, Unnamed: 1})
	o.resent = func(d delivery) { b.arrive(guid(d.guid)) }

	want(t, b.reconcile(Ask{Since: ago(60 * time.Hour)}), 5, 3, 0, 2, 0, 1)
	if !slices.Equal(o.again, []string{"first", "second"}) {
		t.Errorf("asked for again: %q", o.again)
	}
	b.wantStored("here", "first", "second")
	want(t, b.reconcile(Ask{Since: ago(60 * time.Hour)}), 5, 5, 0, 0, 0, 0)
	for _, asked := range o.asked {
		if strings.Contains(asked, "cursor=8") {
			t.Error("it went on to what is older than what was asked for")
		}
	}
}

func TestGitHubsRecordIsTakenInWithoutAProof(t *testing.T) {
	o := newOcto(t)
	b := newBench(t, "github", o.block("      take: payload\n"))
	o.add("first", 3*time.Hour, 503)
	o.add("second", 2*time.Hour, 503)
	b.source.OrderKey = nil
	want(t, b.reconcile(Ask{}), 2, 0, 2, 0, 0, 0)
	b.wantStored("first", "second")
	page, err := b.store.Events(store.Filter{Oldest: true})
	must(t, err)
	e := page.Items[0]
	p, err := b.store.Read(e.Seq)
	must(t, err)
	defer p.Release()
	var names []string
	for i := range p.HeaderCount() {
		name, _ := p.Header(i)
		names = append(names, string(name))
	}
	if want := "Accept Content-Type User-Agent X-GitHub-Delivery X-GitHub-Event"; want !=
		strings.Join(names, " ") {
		t.Errorf("its headers are %s, want %s", names, want)
	}
	c := p.Frame().C()
	if string(p.Body()) != `{"ref":"refs/heads/first"}` || string(p.Target()) != "/hooks/it" ||
		c.Flags()&uint8(shmabi.VerdictFlagUnverified) == 0 || e.Type != "push" {
		t.Errorf("%s %s, flags %d, type %s", p.Target(), p.Body(), c.Flags(), e.Type)
	}
	detail, err := b.store.Event(e.ID)
	must(t, err)
	if len(detail.Destinations) != 1 || detail.State != event.Pending ||
		len(detail.Attempts) != 1 || detail.Attempts[0].By != By {
		t.Errorf("it is to be delivered as %+v", detail)
	}
	want(t, b.reconcile(Ask{}), 2, 2, 0, 0, 0, 0)
	b.wantStored("first", "second")
}

func TestADryRunAsksAndChangesNothing(t *testing.T) {
	for _, take := range []string{"payload", "redeliver"} {
		o := newOcto(t)
		b := newBench(t, "github", o.block("      take: "+take+"\n"))
		o.add("first", 3*time.Hour, 503)
		b.ledger.add(gaps.Gap{Source: "it", From: ago(4 * time.Hour), To: ago(time.Hour), Count: 1,
			Unnamed: 1})
		want(t, b.reconcile(Ask{Dry: true}), 1, 0, 0, 0, 0, 0)
		b.wantStored()
		if len(o.again) > 0 || b.files["it"].state.Run != nil || b.files["it"].state.Done != 0 {
			t.Errorf("asked for again %q, noted %+v", o.again, b.files["it"].state)
		}
	}
}

func TestWhatDoesNotComeIsToldAndAskedForByTheNextRunAFewTimes(t *testing.T) {
	o := newOcto(t)
	b := newBench(t, "github", o.block(""))
	b.seams.arrival = time.Millisecond
	b.serve()
	o.add("refused", 3*time.Hour, 401)
	o.resent = func(d delivery) {
		d.id += len(o.deliveries)
		o.deliveries = slices.Insert(o.deliveries, 0, d)
	}
	for range attemptsMax {
		want(t, b.failed(Ask{}, "1 of 1 events that were asked for again"), 1, 0, 0, 1, 0, 0)
	}
	want(t, b.reconcile(Ask{}), 1, 0, 0, 0, 1, 0)
}

func TestARunThatIsKilledWhileItWaitsAsksAgainInTheNextLife(t *testing.T) {
	o := newOcto(t)
	b := newBench(t, "github", o.block(""))
	b.seams.arrival = time.Minute
	b.serve()
	o.add("late", 3*time.Hour, 503)
	ctx, kill := context.WithCancel(context.Background())
	b.every = func(p Progress) {
		if p.Waiting == "what was asked for again: 1 of 1" {
			kill()
		}
	}
	b.begun(ctx)
	if st := b.state(); st.Run == nil || st.Run.Done != st.Run.Since {
		t.Errorf("kept: %+v", st.Run)
	}
	o.resent = func(d delivery) { b.arrive(guid(d.guid)) }
	b.serve()
	want(t, b.begun(context.Background()), 1, 0, 0, 1, 0, 0)
}

func TestWhatGitHubHasNoMoreIsLost(t *testing.T) {
	for _, take := range []string{"payload", "redeliver"} {
		o := newOcto(t)
		b := newBench(t, "github", o.block("      take: "+take+"\n"))
		o.add("first", 3*time.Hour, 503)
		o.before = func(w http.ResponseWriter, r *http.Request) bool {
			gone := r.URL.Path != octoHook
			if gone {
				http.Error(w, "{}", http.StatusNotFound)
			}
			return gone
		}
		want(t, b.reconcile(Ask{}), 1, 0, 0, 0, 1, 0)
	}
}

func TestAFormIsTakenInAsAForm(t *testing.T) {
	o := newOcto(t)
	b := newBench(t, "github", o.block("      take: payload\n"))
	o.add("first", 3*time.Hour, 503)
	o.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == octoHook {
			return false
		}
		_, _ = w.Write([]byte(`{"request":{"headers":{"content-type":"application/x-www-form-urlencoded",
			"X-GitHub-Delivery":"first","none":null},"payload":{"a": "b&c"}}}`))
		return true
	}
	want(t, b.reconcile(Ask{}), 1, 0, 1, 0, 0, 0)
	page, err := b.store.Events(store.Filter{})
	must(t, err)
	p, err := b.store.Read(page.Items[0].Seq)
	must(t, err)
	defer p.Release()
	if got := string(p.Body()); got != "payload=%7B%22a%22%3A%22b%26c%22%7D" {
		t.Errorf("the body is %s", got)
	}
}

func TestAnAnswerThatSaysNoSaysWhoseFaultItIs(t *testing.T) {
	for status, text := range map[int]string{
		401: "refuses the token (401)", 403: "webhooks permission", 404: "check reconcile.hook",
		301: "leads elsewhere (301)", 418: "does not take the request (418)",
	} {
		o := newOcto(t)
		b := newBench(t, "github", o.block(""))
		o.before = func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("Location", "http://127.0.0.1:1/elsewhere")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(theToken))
			return true
		}
		p := b.failed(Ask{}, text)
		if p.Pages != 0 || len(o.asked) != 1 {
			t.Errorf("%d: asked %q", status, o.asked)
		}
	}
}
