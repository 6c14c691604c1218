package transform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
)

// secret stands in every body whose evaluation fails: no error may hold it.
const secret = "hunter2"

func request(body string) *destination.Request {
	id, err := event.ParseID("01ARZ3NDEKTSV4RRFFQ69G5FAV")
	if err != nil {
		panic(err)
	}
	return &destination.Request{
		EventID: id, Source: "github", Attempt: 3, Method: "POST", Target: "/hooks?a=1",
		Headers: []destination.Header{
			{Name: []byte("X-GitHub-Event"), Value: []byte("push")},
			{Name: []byte("Accept"), Value: []byte("a")},
			{Name: []byte("accept"), Value: []byte("b\xff")},
		},
		Body: []byte(body), ReceivedNS: 1_700_000_000_123_000_000,
	}
}

func TestAFilterSeesTheRequest(t *testing.T) {
	const body = `{"type":"invoice.paid","amount":12.5,"big":9007199254740993,"tags":["a"],
		"none":null}`
	for text, want := range map[string]bool{
		`event.type == "invoice.paid"`:                            true,
		`event.amount > 12`:                                       true,
		`event.big == 9007199254740993`:                           true,
		`event.big == 9007199254740992`:                           false,
		`"a" in event.tags && size(event.tags) == 1`:              true,
		`event.none == null`:                                      true,
		`headers["x-github-event"][0] == "push"`:                  true,
		`headers["accept"] == ["a", "b\uFFFD"]`:                   true,
		`header("X-GitHub-Event") == "push" && header("X") == ""`: true,
		`source == "github" && method == "POST"`:                  true,
		`target.startsWith("/hooks?") && attempt == 3`:            true,
		`id == "01ARZ3NDEKTSV4RRFFQ69G5FAV"`:                      true,
		`received == timestamp("2023-11-14T22:13:20.123Z")`:       true,
		`string(body).contains("invoice") && size(body) > 80`:     true,
		`true`: true,
	} {
		f, err := NewFilter(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := f.Match(request(body)); got != want || err != nil {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestWhatAnEventLacksDoesNotMatch(t *testing.T) {
	for _, c := range []struct {
		text, body string
		want       bool
	}{
		{`event.type == "x"`, `{}`, false},
		{`event.type != "x"`, `{}`, false},
		{`!(event.type == "x")`, `{}`, false},
		{`event.a.b.c == 1`, `{"a":1}`, false},
		{`event.a.b.c == 1`, `{"a":null}`, false},
		{`event.list[3] == 1`, `{"list":[]}`, false},
		{`event.type == "x"`, `not json`, false},
		{`event.type == "x"`, ``, false},
		{`event.type == "x"`, `{"type":"x"} {"type":"x"}`, false},
		{`headers["nope"][0] == "x"`, `{}`, false},
		{`has(event.type) ? event.type == "x" : true`, `{}`, true},
		{`event.?type.orValue("y") != "x"`, `{}`, true},
		{`event == null`, `not json`, true},
		{`event.type == "x" || true`, `{}`, true},
	} {
		f, err := NewFilter(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got, err := f.Match(request(c.body)); got != c.want || err != nil {
			t.Errorf("%s on %s: got %v, %v, want %v", c.text, c.body, got, err, c.want)
		}
	}
}

func TestAFilterThatOnlyLooksAtHeadersParsesNoBody(t *testing.T) {
	v := &variables{request: request(strings.Repeat("[", depthMax+1))}
	f, err := NewFilter(`header("X-GitHub-Event") == "push" || event.x`)
	if err != nil {
		t.Fatal(err)
	}
	if value, _, err := f.program.program.Eval(v); err != nil || v.parsed {
		t.Fatalf("got %v, %v, parsed %v", value, err, v.parsed)
	}
	if f, err = NewFilter(`event.x == 1`); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Match(request(strings.Repeat("[", depthMax+1))); err == nil {
		t.Fatal("a body beyond the bounds was taken for one that is no JSON")
	}
}

func TestATransformGivesABody(t *testing.T) {
	for _, c := range []struct{ kind, text, body, want, contentType string }{
		{CEL, `{"a": event.x, "b": [1, 2.5, true, null]}`, `{"x":"y"}`,
			`{"a":"y","b":[1,2.5,true,null]}`, jsonType},
		{CEL, `event`, `{"b":1,"a":[{"c":"<&>\u2028\n\u0001\"\\"}]}`,
			`{"a":[{"c":"<&>` + "\u2028" + `\n\u0001\"\\"}],"b":1}`, jsonType},
		{CEL, `"id " + id`, ``, "id 01ARZ3NDEKTSV4RRFFQ69G5FAV", ""},
		{CEL, `body`, "\x00\xff", "\x00\xff", ""},
		{CEL, `[body, received, duration("1500ms"), 18446744073709551615u, attempt]`, "\xff",
			`["/w==","2023-11-14T22:13:20.123Z","1.5s",18446744073709551615,3]`, jsonType},
		{CEL, `{1: "a", true: event.?x, "n": event.?x.y}`, `{"x":1}`,
			`{"1":"a","n":null,"true":1}`, jsonType},
		{CEL, `event.transformMap(k, v, k != "secret", v)`, `{"a":1,"secret":2}`, `{"a":1}`, jsonType},
		{CEL, `event`, `no`, `null`, jsonType},
		{CEL, `event.s.split(",").join("-")`, `{"s":"a,b"}`, "a-b", ""},
		{JQ, `{a: .x, b: $source, c: $headers["accept"][0], d: $attempt}`, `{"x":[1]}`,
			`{"a":[1],"b":"github","c":"a","d":3}`, jsonType},
		{JQ, `.x`, `{"x":"text"}`, "text", ""},
		{JQ, `.`, `no`, "null", jsonType},
		{JQ, `$body + $method + $target + $id + $received`, "b",
			"bPOST/hooks?a=101ARZ3NDEKTSV4RRFFQ69G5FAV2023-11-14T22:13:20.123Z", ""},
		{JQ, `[.price * .count, .a.b.c, nan, 1e400, (.n | tonumber) + 1]`,
			`{"price":2.5,"count":2,"n":"41"}`,
			`[5,null,null,1.7976931348623157e+308,42]`, jsonType},
		{JQ, `.total *= 2 | .list[.i] = 9 | .n -= 1 | .list |= join("-")`,
			`{"total":4,"list":[1],"i":2,"n":3}`, `{"i":2,"list":"1--9","n":2,"total":8}`, jsonType},
		{JQ, `(.a - ["x"]) + ([[1,2],[3]] | transpose) + [.s | test("^a"), gsub("a"; "b")]`,
			`{"a":["x","y"],"s":"ab"}`, `["y",[1,3],[2,null],true,"bb"]`, jsonType},
		{JQ, `setpath(["a",1]; .s | fromjson) | contains({a:[null,7]}) as $c | [., $c]`,
			`{"s":"7"}`, `[{"a":[null,7],"s":"7"},true]`, jsonType},
		{JQ, `def double(f): f * 2; [.[] | double(.)] | join(",") | split(", *"; null)`, `[1,2]`,
			`["2","4"]`, jsonType},
	} {
		transform, err := NewTransform(c.kind, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		r := request(c.body)
		body, contentType, err := transform.Apply(r)
		if string(body) != c.want || contentType != c.contentType || err != nil {
			t.Errorf("%s on %s: got %q, %q, %v", c.text, c.body, body, contentType, err)
		}
		if !slices.Equal(r.Body, []byte(c.body)) {
			t.Errorf("%s changed the body", c.text)
		}
	}
}

// Bodies often pass on names that are numbers, so no digit of one may change on the way.
func TestNumbersKeepTheirDigits(t *testing.T) {
	numbers := []string{
		"0", "-1", "9223372036854775807", "-9223372036854775808", "18446744073709551615",
		"18446744073709551616", "123456789012345678901234567890", "-123456789012345678901234567890",
		"0.1", "12345678.12345678901234567890", "1e+400", "-1E-400", "0.30000000000000004", "2.5e-8",
		strings.Repeat("9", numberMax),
	}
	body := `{"n":[` + strings.Join(numbers, ",") + `]}`
	for _, kind := range []string{CEL, JQ} {
		text := map[string]string{CEL: `event.n`, JQ: `.n`}[kind]
		transform, err := NewTransform(kind, text)
		if err != nil {
			t.Fatal(err)
		}
		out, _, err := transform.Apply(request(body))
		if err != nil {
			t.Fatal(err)
		}
		decoder := json.NewDecoder(bytes.NewReader(out))
		decoder.UseNumber()
		var got []json.Number
		if err := decoder.Decode(&got); err != nil || len(got) != len(numbers) {
			t.Fatalf("%s: %v: %s", kind, err, out)
		}
		for i, n := range numbers {
			if compareDecimals(n, string(got[i])) != 0 {
				t.Errorf("%s: %s became %s", kind, n, got[i])
			}
		}
	}
}

func TestDecimalsCompareByAllTheirDigits(t *testing.T) {
	const body = `{"a":123456789012345678901,"b":123456789012345678902,"c":0.10000000000000000001,
		"d":1e999999999999999999999,"e":-1e999999999999999999999,"f":123456789012345678901.0}`
	for text, want := range map[string]bool{
		`event.a == event.b`: false, `event.a < event.b`: true, `event.a == event.f`: true,
		`event.a > 5`: true, `event.c > 0.1`: true, `event.c == 0.1`: false, `event.c < 1u`: true,
		`event.d > event.a`: true, `event.e < event.a`: true, `event.e < -5`: true,
		`string(event.a) == "123456789012345678901"`: true,
		`double(event.a) > 1e20`:                     true,
		`event.a + 1.0 > 1e20`:                       true,
	} {
		f, err := NewFilter(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got, err := f.Match(request(body)); got != want || err != nil {
			t.Errorf("%s: got %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestAFaultyExpressionIsNamedByPlace(t *testing.T) {
	for _, c := range []struct{ kind, text, want string }{
		{"filter", `event.type ==`, "line 1, column 14"},
		{"filter", "true &&\n  foo", "line 2, column 3: undeclared reference to 'foo'"},
		{"filter", `source`, "gives a string, want a bool"},
		{"filter", `header(source) == ""`, "line 1, column 8"},
		{"filter", `source.matches(event.re)`, "line 1, column 21: matches takes literals only"},
		{"filter", `source.matches("(")`, "line 1, column 16"},
		{CEL, `source.replace("a", event.b)`, "replace takes literals only"},
		{CEL, `event.l.join(event.b)`, "join takes literals only"},
		{CEL, `now()`, "undeclared reference to 'now'"},
		{JQ, "{a: 1,\n  b: ]}", "line 2, column 6"},
		{JQ, `{a: 1`, "line 1, column 6: unexpected EOF"},
		{JQ, `foo`, "function not defined: foo/0"},
		{JQ, `$foo`, "variable not defined: $foo"},
		{JQ, `env.HOME`, "env is not available"},
		{JQ, `[.a, ($ENV | .HOME)]`, "$ENV is not available"},
		{JQ, `"\(now)"`, "now is not available"},
		{JQ, `input`, "input is not available"},
		{JQ, `halt_error`, "halt_error is not available"},
		{JQ, `import "a" as a; .`, "modules cannot be imported"},
		{JQ, `test(.re)`, "test takes a pattern that is a literal"},
		{JQ, `sub("a\(.x)"; "b")`, "sub takes a pattern that is a literal"},
		{JQ, `def join(x): x; .`, "join cannot be defined"},
		{"yaml", `.`, `kind "yaml"`},
	} {
		var err error
		if c.kind == "filter" {
			_, err = NewFilter(c.text)
		} else {
			_, err = NewTransform(c.kind, c.text)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.text, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: more than a line: %v", c.text, err)
		}
	}
}

func TestErrorsHoldNothingOfTheEvent(t *testing.T) {
	const body = `{"s":"hunter2","hunter2":1,"o":{"hunter2":"hunter2"},"l":["hunter2"],"n":1,
		"q":"\"hunter2"}`
	for _, c := range []struct{ kind, text, want string }{
		{"filter", `event.s + 1 == 1`, "line 1, column 9: no such overload"},
		{"filter", `int(event.s) == 1`, "line 1, column 4: "},
		{"filter", `timestamp(event.s) == received`, "line 1, column 10: "},
		{"filter", `event.s`, "gave a string, want a bool"},
		{"filter", `event.n / 0 == 1`, "line 1, column 9: division by zero"},
		{CEL, `headers[event.s]`, "line 1, column 8: the event has no such key"},
		{CEL, `event.l[event.n]`, "no such key or index"},
		{CEL, `event.s.charAt(99)`, "the evaluation failed"},
		{CEL, `type(event.s)`, "the result holds a type"},
		{CEL, `[1.0 / 0.0]`, "NaN or infinite"},
		{CEL, `{1: event.s, "1": event.s}`, "two keys"},
		{JQ, `.s + 1`, "cannot add: got string"},
		{JQ, `.s - 1`, "cannot subtract: got string"},
		{JQ, `.l.a`, "expected an object: got array"},
		{JQ, `.n[]`, "cannot iterate over: got number"},
		{JQ, `.s | tonumber`, "tonumber cannot be applied"},
		{JQ, `.q | fromjson`, "fromjson cannot be applied"},
		{JQ, `.s | keys`, "keys cannot be applied"},
		{JQ, `error(.s)`, "the program called error"},
		{JQ, `.s | error`, "the program called error"},
		{JQ, `format(.s)`, "format"},
		{JQ, `.s | strptime("%Y")`, "strptime cannot be applied"},
		{JQ, `{(.l[0]): 1}[.s] | .[.x]`, ""},
		{JQ, `.s * 3`, "a string cannot be multiplied"},
		{JQ, `.l | join(1)`, "join: want a text"},
		{JQ, `.[]`, "more than one value"},
		{JQ, `empty`, "no value"},
	} {
		var err error
		if c.kind == "filter" {
			var f *Filter
			if f, err = NewFilter(c.text); err == nil {
				_, err = f.Match(request(body))
			}
		} else {
			var transform *Transform
			if transform, err = NewTransform(c.kind, c.text); err == nil {
				_, _, err = transform.Apply(request(body))
			}
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.text, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error holds the body: %v", c.text, err)
		}
	}
}

// Each of these takes minutes or all memory without its bound.
func TestAHostileBodyIsStopped(t *testing.T) {
	ones := func(n int) string { return "[" + strings.Repeat("1,", n-1) + "1]" }
	long := strings.Repeat("a", 200_000)
	deep := strings.Repeat("[", depthMax+1) + strings.Repeat("]", depthMax+1)
	for _, c := range []struct{ kind, text, body, want string }{
		{CEL, `event`, deep, "nests deeper"},
		{CEL, `event`, strings.Repeat("9", numberMax+1), "a number is longer"},
		{CEL, `event`, `"` + strings.Repeat("a", bodyMax) + `"`, "is not parsed"},
		{CEL, `event.all(x, event.all(y, x == y))`, ones(5000), "units of work"},
		{CEL, `event.l.map(x, event.s)`, `{"l":` + ones(5000) + `,"s":"` + long + `"}`, "longer than"},
		{JQ, `.`, deep, "nests deeper"},
		{JQ, `.. |= .`, strings.Repeat("9", numberMax+1), "a number is longer"},
		{JQ, `[range(.n)] | length`, `{"n":1e12}`, "too many steps"},
		{JQ, `last(repeat(1))`, ``, "too many steps"},
		{JQ, `[.l[] as $x | .s]`, `{"l":` + ones(5000) + `,"s":"` + long + `"}`, "longer than"},
		{JQ, `.s * .n`, `{"s":"` + long + `","n":5000}`, "a string cannot be multiplied"},
		{JQ, `.s *= 100`, `{"s":"` + long + `"}`, "a string cannot be multiplied"},
		{JQ, `.l[.n] = 1`, `{"l":[],"n":500000000}`, "an index is beyond"},
		{JQ, `.l[.n] |= 1`, `{"l":[],"n":500000000}`, "an index is beyond"},
		{JQ, `.l[.n]? += 1 | length`, `{"l":[],"n":500000000}`, ""},
		{JQ, `setpath(.p; 1)`, `{"p":["l",500000000]}`, "an index is beyond"},
		{JQ, `pick(.l[.n])`, `{"l":[],"n":500000000}`, "an index is beyond"},
		{JQ, `.l | join("` + long[:1000] + `")`, `{"l":` + ones(100_000) + `}`, "longer than"},
		{JQ, `.a - .a | length`, `{"a":` + ones(100_000) + `}`, "stand at a minus"},
		{JQ, `.a -= .a | length`, `{"a":` + ones(100_000) + `}`, "stand at a minus"},
		{JQ, `.a | contains(.)`, `{"a":` + ones(100_000) + `}`, "are looked for"},
		{JQ, `.a as $a | .a | inside($a)`, `{"a":` + ones(100_000) + `}`, "are looked for"},
		{JQ, `.s as $s | .s | indices($s)`, `{"s":"` + long + `"}`, "are looked for"},
		{JQ, `.a | transpose`, `{"a":[` + ones(100_000) + strings.Repeat(",[]", 1000) + `]}`,
			"is transposed"},
		{JQ, `(.s | tonumber) + 1`, `{"s":"` + strings.Repeat("9", 5000) + `"}`, "a number is longer"},
		{JQ, `.s | fromjson`, `{"s":"` + deep + `"}`, "nests deeper"},
		{JQ, `reduce range(30) as $i (.; . * .)`, `99999999999`, "a factor is larger"},
		{JQ, `reduce .l[] as $x (""; . + $x) | length`,
			`{"l":[` + strings.Repeat(`"`+long[:100]+`",`, 50_000) + `"a"]}`, "the program took"},
	} {
		transform, err := NewTransform(c.kind, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		_, _, err = transform.Apply(request(c.body))
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.text, err, c.want)
		}
	}
}

func TestTheClockEndsStepsThatAreDear(t *testing.T) {
	b := &budget{steps: 10 * clockSteps}
	for range clockSteps {
		if b.Done() != nil {
			if b.Err() != errTime {
				t.Fatal(b.Err())
			}
			return
		}
	}
	t.Fatal("a deadline in the past ended nothing")
}

func TestExpressionsAreSharedBetweenGoroutines(t *testing.T) {
	f, err := NewFilter(`event.n == int(header("N"))`)
	if err != nil {
		t.Fatal(err)
	}
	transform, err := NewTransform(JQ, `.n + ($headers.n[0] | tonumber)`)
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			r := request(fmt.Sprintf(`{"n":%d}`, i))
			r.Headers = []destination.Header{{Name: []byte("N"), Value: fmt.Append(nil, i)}}
			for range 200 {
				if ok, err := f.Match(r); !ok || err != nil {
					t.Errorf("filter: %v, %v", ok, err)
				}
				body, _, err := transform.Apply(r)
				if want := fmt.Sprint(2 * i); string(body) != want || err != nil {
					t.Errorf("transform: %s, %v, want %s", body, err, want)
				}
			}
		})
	}
	group.Wait()
}

func FuzzBodies(f *testing.F) {
	for _, seed := range []string{
		`{"a":1,"b":[2.5,"x",null,1e999]}`, `[]`, `"\ud800"`, `-0`, "\xff", `{"a":{"a":{}}}`,
		`{"a":1,"a":2}`, `123456789012345678901`, ` {"a": "\u0000"} `,
	} {
		f.Add([]byte(seed))
	}
	identity := map[string]string{CEL: `[event]`, JQ: `[.]`}
	var transforms []*Transform
	for kind, text := range identity {
		transform, err := NewTransform(kind, text)
		if err != nil {
			f.Fatal(err)
		}
		transforms = append(transforms, transform)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var outs [][]byte
		for _, transform := range transforms {
			out, _, err := transform.Apply(request(string(body)))
			if err != nil {
				return
			}
			if !json.Valid(out) {
				t.Fatalf("%q became %q, which is no JSON", body, out)
			}
			outs = append(outs, out)
		}
		for _, out := range outs {
			again, _, err := transforms[0].Apply(request(string(out[1 : len(out)-1])))
			if err != nil || !sameJSON(again, out) {
				t.Fatalf("%q became %q, and that %q, %v", body, out, again, err)
			}
		}
	})
}

func FuzzExpressions(f *testing.F) {
	for _, seed := range []string{
		`event.a == 1`, `{"a": [event.b]}`, `.a * .b`, `.[.n] |= . - 1`, `reduce .[] as [$a] (0; . + $a)`,
		`label $out | .a?, break $out`, `header("x")`, `def f(g): g | f(g); f(.)`, `"\(.a)" | test("a")`,
	} {
		f.Add(seed, `{"a":1,"b":[1,"x"],"n":3}`)
	}
	f.Fuzz(func(_ *testing.T, text, body string) {
		if filter, err := NewFilter(text); err == nil {
			_, _ = filter.Match(request(body))
		}
		for _, kind := range []string{CEL, JQ} {
			if transform, err := NewTransform(kind, text); err == nil {
				_, _, _ = transform.Apply(request(body))
			}
		}
	})
}

// sameJSON compares two texts but for how numbers are written.
func sameJSON(a, b []byte) bool {
	read := func(text []byte) any {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		var v any
		if decoder.Decode(&v) != nil {
			return nil
		}
		return v
	}
	var same func(a, b any) bool
	same = func(a, b any) bool {
		switch a := a.(type) {
		case json.Number:
			b, ok := b.(json.Number)
			return ok && compareDecimals(string(a), string(b)) == 0
		case []any:
			b, ok := b.([]any)
			return ok && slices.EqualFunc(a, b, same)
		case map[string]any:
			b, ok := b.(map[string]any)
			if !ok || len(a) != len(b) {
				return false
			}
			for k := range a {
				if !same(a[k], b[k]) {
					return false
				}
			}
			return true
		}
		return a == b
	}
	return same(read(a), read(b))
}

var benchmarkBody = `{"type":"invoice.paid","data":{"object":{"id":"in_1","amount":1200,"lines":[` +
	strings.Repeat(`{"id":"li","amount":100,"description":"a line of an invoice"},`, 14) +
	`{"id":"li"}]}}}`

func BenchmarkFilterHeader(b *testing.B) {
	benchmarkFilter(b, `header("X-GitHub-Event") == "push"`)
}
func BenchmarkFilterBody(b *testing.B) { benchmarkFilter(b, `event.type == "invoice.paid"`) }
func BenchmarkTransformCEL(b *testing.B) {
	benchmarkTransform(b, CEL, `{"id": event.data.object.id, "amount": event.data.object.amount}`)
}
func BenchmarkTransformJQ(b *testing.B) {
	benchmarkTransform(b, JQ, `{id: .data.object.id, amount: .data.object.amount}`)
}

func benchmarkFilter(b *testing.B, text string) {
	f, err := NewFilter(text)
	if err != nil {
		b.Fatal(err)
	}
	r := request(benchmarkBody)
	b.ReportAllocs()
	for b.Loop() {
		if ok, err := f.Match(r); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}

func benchmarkTransform(b *testing.B, kind, text string) {
	transform, err := NewTransform(kind, text)
	if err != nil {
		b.Fatal(err)
	}
	r := request(benchmarkBody)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := transform.Apply(r); err != nil {
			b.Fatal(err)
		}
	}
}
