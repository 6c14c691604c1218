package reconcile

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/go/internal/store"
)

// answers is a server that answers with what a test writes, and keeps what it was asked.
type answers struct {
	mu    sync.Mutex
	asked []string
	head  []http.Header
	give  http.HandlerFunc
}

func (a *answers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked, a.head = append(a.asked, r.URL.String()), append(a.head, r.Header)
	a.give(w, r)
}

func newAnswers(t testing.TB, give http.HandlerFunc) (*answers, string) {
	a := &answers{give: give}
	return a, served(t, httptest.NewServer(a))
}

func TestAListOfAnOperatorsOwnIsTakenIn(t *testing.T) {
	when := [3]time.Time{ago(3 * time.Hour), ago(2 * time.Hour), ago(time.Hour)}
	a, at := newAnswers(t, func(w http.ResponseWriter, r *http.Request) {
		item := func(i int) string {
			return fmt.Sprintf(`{"id": %d, "at": "%d", "raw": {"n": %d}, "topic": "a/b"}`, 100+i,
				when[i].UnixMilli(), i)
		}
		if r.URL.Query().Get("after") == "" {
			fmt.Fprintf(w, `{"page":{"items":[%s,%s],"next":"c d"}}`, item(1), item(2))
			return
		}
		fmt.Fprintf(w, `{"page":{"items":[%s],"next":null}}`, item(0))
	})
	b := newBench(t, "http", fmt.Sprintf("      url: \"%s/list?from={since}&to={until}&"+
		"after={cursor}\"\n      headers: {X-Key: %s}\n      items: /page/items\n"+
		"      cursor: /page/next\n"+
		"      body: /raw\n      time: /at\n      time_format: unix-ms\n"+
		"      set: {X-Event-Id: 'json:/id', X-Topic: 'json:/topic', Content-Type: application/json}\n",
		at, theToken))
	p := b.reconcile(Ask{})
	want(t, p, 3, 0, 3, 0, 0, 0)
	b.wantStored("100", "101", "102")
	page, err := b.store.Events(store.Filter{Oldest: true})
	must(t, err)
	got, err := b.store.Read(page.Items[1].Seq)
	must(t, err)
	defer got.Release()
	name, value := got.Header(1)
	if string(got.Body()) != `{"n": 1}` || string(name)+string(value) != "X-Topica/b" {
		t.Errorf("stored %s with %s: %s", got.Body(), name, value)
	}
	first := fmt.Sprintf("/list?from=%d&to=%d", p.Since.UnixMilli(), p.Until.UnixMilli())
	if len(a.asked) != 2 || a.asked[0] != first || a.asked[1] != first+"&after=c+d" ||
		a.head[0].Get("X-Key") != theToken {
		t.Errorf("asked %q", a.asked)
	}
	want(t, b.reconcile(Ask{}), 3, 3, 0, 0, 0, 0)
}

func TestPagesAreFollowedByLinkOrByURL(t *testing.T) {
	for cursor, block := range map[string]string{
		"link": "      cursor: link\n", "url": "      items: /data\n      cursor: /next\n",
	} {
		a, at := newAnswers(t, func(w http.ResponseWriter, r *http.Request) {
			last := r.URL.Path == "/2"
			switch {
			case cursor == "link" && !last:
				w.Header().Set("Link", `<?x>; rel=prev, </2>; title="a"; REL=next`)
				fallthrough
			case cursor == "link":
				fmt.Fprintf(w, `[{"id":"e%s"}]`, r.URL.Path[1:])
			case last:
				fmt.Fprint(w, `{"data":[{"id":"e2"}]}`)
			default:
				fmt.Fprint(w, `{"data":[{"id":"e"}],"next":"/2"}`)
			}
		})
		b := newBench(t, "http", "      url: "+at+"\n      set: {X-Event-Id: 'json:/id'}\n"+
			"      token: "+theToken+"\n"+block)
		want(t, b.reconcile(Ask{}), 2, 0, 2, 0, 0, 0)
		b.wantStored("e", "e2")
		if got := a.head[1].Get("Authorization"); got != "Bearer "+theToken {
			t.Errorf("%s: Authorization %q", cursor, got)
		}
	}
}

func TestWhatProvesUsGoesToTheProviderAlone(t *testing.T) {
	stranger, elsewhere := newAnswers(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `[]`)
	})
	for name, give := range map[string]http.HandlerFunc{
		"a link": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "<"+elsewhere+"/>; rel=next")
			fmt.Fprint(w, `[]`)
		},
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere, http.StatusFound)
		},
	} {
		_, at := newAnswers(t, give)
		b := newBench(t, "http", "      url: "+at+"\n      cursor: link\n      token: "+theToken+"\n")
		if p := b.try(Ask{}); p.Error == "" || len(stranger.asked) > 0 {
			t.Errorf("%s: %q, and the stranger was asked %q", name, p.Error, stranger.asked)
		}
	}
}

func TestARedirectOnTheSameHostIsFollowed(t *testing.T) {
	_, at := newAnswers(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/moved", http.StatusMovedPermanently)
			return
		}
		fmt.Fprint(w, `[{"id":"e"}]`)
	})
	b := newBench(t, "http", "      url: "+at+"/\n      set: {X-Event-Id: 'json:/id'}\n")
	want(t, b.reconcile(Ask{}), 1, 0, 1, 0, 0, 0)
}

func TestAListThatIsNotAsTheConfigSaysIsRefusedWithTheKeyToMend(t *testing.T) {
	for _, c := range []struct{ answer, block, why string }{
		{`{}`, "      items: /data\n", "reconcile.items"},
		{`{"data":1}`, "      items: /data\n", "reconcile.items"},
		{`no JSON`, "", "reconcile.items"},
		{`[{"id":1}]`, "      body: /raw\n", "reconcile.body"},
		{`[{"id":1}]`, "      time: /at\n", "reconcile.time"},
		{`[{"id":1,"at":"yesterday"}]`, "      time: /at\n", "reconcile.time"},
		{`[{"id":{}}]`, "", "reconcile.set"},
		{`[{}]`, "", "reconcile.set"},
		{`[{"id":"a\nb"}]`, "", "line end"},
		{`[{"id":""}]`, "", "no id"},
		{`{"data":[],"n":"c1"}`, "      items: /data\n      cursor: /n\n", "write {cursor}"},
	} {
		_, at := newAnswers(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, c.answer) })
		b := newBench(t, "http", "      url: "+at+"\n      set: {X-Event-Id: 'json:/id'}\n"+c.block)
		p := b.failed(Ask{}, c.why)
		want(t, p, p.Seen, 0, 0, 0, 0, 0)
		b.wantStored()
	}
}

func TestABodyInsideAStringIsThatTextAndOneTooLargeIsLost(t *testing.T) {
	_, at := newAnswers(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `[{"id":"a","raw":"{\"x\":1}"},{"id":"b","raw":"%s"}]`, strings.Repeat("x", 2<<20))
	})
	b := newBench(t, "http", "      url: "+at+"\n      body: /raw\n"+
		"      set: {X-Event-Id: 'json:/id'}\n")
	want(t, b.reconcile(Ask{}), 2, 0, 1, 0, 1, 0)
	page, err := b.store.Events(store.Filter{})
	must(t, err)
	got, err := b.store.Read(page.Items[0].Seq)
	must(t, err)
	defer got.Release()
	if string(got.Body()) != `{"x":1}` {
		t.Errorf("the body is %s", got.Body())
	}
}
