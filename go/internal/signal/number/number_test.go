package number_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/go/internal/signal"
	"sluice/go/internal/signal/number"
)

var threshold = signal.Threshold{Trip: 0.85, Recover: 0.5, For: time.Second}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func says(t *testing.T, status int, body string) string {
	return serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
}

func document(t *testing.T, url, pointer string) *number.Source {
	t.Helper()
	s, err := number.JSON(number.Options{URL: url, Name: "n", Threshold: threshold}, pointer)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// value reads one number; "" and false stand for nothing to say.
func value(t *testing.T, s signal.Source) (float64, bool) {
	t.Helper()
	levels, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(levels) == 0 {
		return 0, false
	}
	if len(levels) > 1 {
		t.Fatalf("%d levels", len(levels))
	}
	return levels[0].Value, true
}

func TestAPointerLeadsToANumber(t *testing.T) {
	// The document of RFC 6901, section 5, with numbers for its leaves.
	const doc = `{"foo": [1, "2.5"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\j": 5,
		"k\"l": 6, " ": 7, "m~n": 8, "x": {"y": {"z": -1e3}}, "none": null, "nan": "NaN"}`
	at := says(t, 200, doc)
	for pointer, want := range map[string]float64{
		"/foo/0": 1, "/foo/1": 2.5, "/": 0, "/a~1b": 1, "/c%d": 2, "/e^f": 3, "/g|h": 4, `/i\j`: 5,
		`/k"l`: 6, "/ ": 7, "/m~0n": 8, "/x/y/z": -1000,
	} {
		if got, ok := value(t, document(t, at, pointer)); !ok || got != want {
			t.Errorf("%s: %v, %v; want %v", pointer, got, ok, want)
		}
	}
	for _, pointer := range []string{"/none", "/nan"} {
		if got, ok := value(t, document(t, at, pointer)); ok {
			t.Errorf("%s says %v, want nothing", pointer, got)
		}
	}
	for _, pointer := range []string{"", "/foo", "/foo/2", "/foo/01", "/foo/-", "/foo/+1", "/no",
		"/x/y/z/more", "/none/more"} {
		if _, err := document(t, at, pointer).Read(t.Context()); err == nil {
			t.Errorf("%s: no error", pointer)
		}
	}
	if got, ok := value(t, document(t, says(t, 200, " 12 "), "")); !ok || got != 12 {
		t.Errorf("the document itself: %v, %v", got, ok)
	}
	for _, pointer := range []string{"foo", "/~", "/~2"} {
		if _, err := number.JSON(number.Options{URL: at}, pointer); err == nil {
			t.Errorf("the pointer %s was taken", pointer)
		}
	}
}

func TestALevelCarriesItsThreshold(t *testing.T) {
	s, err := number.JSON(number.Options{URL: says(t, 200, "7"), Name: "n", Threshold: threshold,
		Pool: true}, "")
	if err != nil {
		t.Fatal(err)
	}
	levels, err := s.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := levels[0]
	if l.Signal != "n" || l.Trip != 0.85 || l.Recover != 0.5 || l.For != time.Second || !l.Pool {
		t.Errorf("level %+v", l)
	}
	if l.Value != 1 {
		t.Errorf("the used share of a pool is %v, want it held to 1", l.Value)
	}
}

func TestWhatIsNoAnswerIsAnError(t *testing.T) {
	for name, at := range map[string]string{
		"a failure":         says(t, 503, "0.1"),
		"no JSON":           says(t, 200, "<html>"),
		"more than one":     says(t, 200, "1 2"),
		"too long":          says(t, 200, strings.Repeat(" ", 1<<20)+"1"),
		"nobody":            "http://127.0.0.1:1/",
		"a redirect around": redirects(t, ""),
	} {
		if levels, err := document(t, at, "").Read(t.Context()); err == nil {
			t.Errorf("%s: %+v, want an error", name, levels)
		}
	}
}

// redirects sends every request but /end to `to`, or round in circles.
func redirects(t *testing.T, to string) string {
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/end" {
			fmt.Fprint(w, "3")
			return
		}
		target := to
		if target == "" {
			target = "/again"
		}
		http.Redirect(w, r, target, http.StatusFound)
	})
}

func TestARedirectIsFollowedWithinItsHostAlone(t *testing.T) {
	if got, ok := value(t, document(t, redirects(t, "/end"), "")); !ok || got != 3 {
		t.Errorf("redirected within the host: %v, %v", got, ok)
	}
	var asked bool
	elsewhere := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		asked = true
		fmt.Fprint(w, "3")
	})
	_, err := document(t, redirects(t, elsewhere+"/end"), "").Read(t.Context())
	if err == nil || asked {
		t.Errorf("redirected to another host: error %v, asked there: %v", err, asked)
	}
}

func TestAReadingEndsWithItsTimeoutAndItsContext(t *testing.T) {
	release := make(chan struct{})
	at := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	s, err := number.JSON(number.Options{URL: at, Timeout: 20 * time.Millisecond}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(t.Context()); err == nil {
		t.Error("no error after the timeout")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := document(t, at, "").Read(ctx); err == nil {
		t.Error("no error after the context's end")
	}
}

func TestErrorsHoldNoCredentials(t *testing.T) {
	const secret = "hunter2"
	hidden := func(what string, err error) {
		t.Helper()
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, at := range []string{"http://u:" + secret + "@127.0.0.1:notaport/", "ftp://" + secret,
		"http://u:" + secret + "@h\x7f/"} {
		_, err := number.JSON(number.Options{URL: at}, "")
		hidden("New", err)
	}
	failing := says(t, 500, "")
	u, err := url.Parse(failing)
	if err != nil {
		t.Fatal(err)
	}
	u.User, u.RawQuery = url.UserPassword("u", secret), "key="+secret
	_, err = document(t, u.String(), "").Read(t.Context())
	hidden("status", err)
	_, err = document(t, redirects(t, "http://127.0.0.1:1/?key="+secret), "").Read(t.Context())
	hidden("redirect", err)
	u.Host = "127.0.0.1:1"
	_, err = document(t, u.String(), "").Read(t.Context())
	hidden("refused", err)
}

func TestAUserInTheURLIsSentAsBasicAuthentication(t *testing.T) {
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "u" || password != "p" {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprint(w, "1")
	})
	value(t, document(t, strings.Replace(at, "//", "//u:p@", 1), ""))
}

func query(t *testing.T, at string) *number.Source {
	t.Helper()
	s, err := number.Prometheus(number.Options{URL: at, Name: "q", Threshold: threshold,
		Timeout: 1500 * time.Millisecond}, `max(used{db="x"} / size)`)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func result(kind, result string) string {
	return fmt.Sprintf(`{"status":"success","data":{"resultType":%q,"result":%s}}`, kind, result)
}

func TestAQueryIsAskedAsDocumented(t *testing.T) {
	var got *http.Request
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		fmt.Fprint(w, result("scalar", `[1435781451.781, "0.5"]`))
	})
	if v, ok := value(t, query(t, at+"/prefix/?tenant=a")); !ok || v != 0.5 {
		t.Fatalf("%v, %v", v, ok)
	}
	parameters := got.URL.Query()
	if got.Method != http.MethodGet || got.URL.Path != "/prefix/api/v1/query" ||
		parameters.Get("query") != `max(used{db="x"} / size)` ||
		parameters.Get("timeout") != "1.5s" || parameters.Get("tenant") != "a" {
		t.Errorf("%s %s", got.Method, got.URL)
	}
}

func TestTheLargestOfAVectorCounts(t *testing.T) {
	vector := func(values ...string) string {
		var elements []string
		for _, v := range values {
			elements = append(elements,
				fmt.Sprintf(`{"metric":{"up":"x"},"value":[1435781451.781,%q]}`, v))
		}
		return result("vector", "["+strings.Join(elements, ",")+"]")
	}
	for _, c := range []struct {
		body string
		want float64
		ok   bool
	}{
		{vector("-3", "-1", "-2"), -1, true},
		{vector("NaN", "0.25", "+Inf", "-Inf"), 0.25, true},
		{vector("NaN"), 0, false},
		{vector(), 0, false},
		{result("scalar", `[1, "NaN"]`), 0, false},
	} {
		if got, ok := value(t, query(t, says(t, 200, c.body))); ok != c.ok || got != c.want {
			t.Errorf("%s: %v, %v; want %v, %v", c.body, got, ok, c.want, c.ok)
		}
	}
}

func TestWhatAQueryCannotUseIsAnErrorThatSaysWhy(t *testing.T) {
	const refused = `{"status":"error","errorType":"bad_data","error":"parse error at char 4"}`
	for body, want := range map[string]string{
		refused:                             "parse error at char 4",
		result("matrix", "[]"):              "matrix",
		result("string", `[1, "x"]`):        "string",
		result("scalar", `[1, 2]`):          "without a value",
		result("vector", `[{"metric":{}}]`): "histograms",
		result("vector", `{}`):              "vector",
		`{"status":"success"}`:              "gives",
		`not found`:                         "not that of a Prometheus",
	} {
		status := 200
		if body == refused {
			status = 400
		}
		_, err := query(t, says(t, status, body)).Read(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", body, err, want)
		}
	}
	if _, err := query(t, says(t, 502, "bad gateway")).Read(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "502") {
		t.Errorf("a gateway's failure: %v", err)
	}
}
