package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestAPointerFindsTheTextOfAValue(t *testing.T) {
	const doc = ` { "a" : "x" , "n": -1.50e3, "big":123456789012345678901234567890,
		"o":{"id":"deep","list":[10,{"id":"in list"},[["z"]]]}, "t":true, "nil":null,
		"e\u0073c":"tab\tq\"u\u00e9\ud83d\ude00", "a/b":"slash", "m~n":"tilde", "":"nameless",
		"quote\"}":"brackets ]}", "twice":1, "twice":2, "0":"zero", "s":"" }`
	tests := []struct{ pointer, want string }{
		{"/a", "x"}, {"/n", "-1.50e3"}, {"/big", "123456789012345678901234567890"},
		{"/o/id", "deep"}, {"/o/list/0", "10"}, {"/o/list/1/id", "in list"},
		{"/o/list/2/0/0", "z"}, {"/o/list/3", ""}, {"/o/list/-", ""}, {"/o/list/01", ""},
		{"/o/list/x", ""}, {"/o", ""}, {"/o/list", ""}, {"/t", ""}, {"/nil", ""},
		{"/esc", "tab\tq\"ué😀"}, {"/a~1b", "slash"}, {"/m~0n", "tilde"}, {"/", "nameless"},
		{"/quote\"}", "brackets ]}"}, {"/twice", "1"}, {"/0", "zero"}, {"/s", ""},
		{"/missing", ""}, {"/a/b", ""}, {"/n/0", ""},
	}
	for _, test := range tests {
		p, err := parsePointer(test.pointer)
		if err != nil {
			t.Fatalf("%s: %v", test.pointer, err)
		}
		if got := string(p.text([]byte(doc))); got != test.want {
			t.Errorf("%s: %q, want %q", test.pointer, got, test.want)
		}
	}
}

func TestABrokenDocumentHasNoValues(t *testing.T) {
	p, err := parsePointer("/a/b")
	if err != nil {
		t.Fatal(err)
	}
	deep := `{"x":` + strings.Repeat("[", nestingMax+1) + strings.Repeat("]", nestingMax+1) +
		`,"a":{"b":"v"}}`
	for _, doc := range []string{
		"", "{", `{"a"`, `{"a":`, `{"a":{`, `{"a":{"b"`, `{"a":{"b":`, `{"a":{"b":"v`, `{"a":{"b":1x}}`,
		`{"a" {"b":"v"}}`, `{"x":1 "a":{"b":"v"}}`, `{"x":,"a":{"b":"v"}}`, "a=1&b=2", `["a"]`, `"a"`,
		"{\"x\":\"raw\nline\",\"a\":{\"b\":\"v\"}}", `{"a":{"b":-}}`, `{"a":{"b":"\x"}}`, deep,
	} {
		if got := p.text([]byte(doc)); got != nil {
			t.Errorf("%.40q gives %q", doc, got)
		}
	}
}

func TestAPointerIsRefused(t *testing.T) {
	for _, text := range []string{
		"", "a", "/~", "/~2", "/a~", strings.Repeat("/a", pointerDepthMax+1),
		"/" + strings.Repeat("a", pointerTextMax),
	} {
		if _, err := parsePointer(text); err == nil {
			t.Errorf("%.30q is taken", text)
		}
	}
}

// lookup is find by way of the standard library. It gives up on objects that have a key twice.
func lookup(t testing.TB, doc []byte, p pointer) (raw json.RawMessage, decidable bool) {
	raw = doc
	for _, segment := range p {
		raw = bytes.TrimSpace(raw)
		if len(raw) == 0 {
			return nil, true
		}
		switch raw[0] {
		case '{':
			decoder := json.NewDecoder(bytes.NewReader(raw))
			if _, err := decoder.Token(); err != nil {
				t.Fatal(err)
			}
			var found json.RawMessage
			count := 0
			for decoder.More() {
				key, err := decoder.Token()
				if err != nil {
					t.Fatal(err)
				}
				var value json.RawMessage
				if err := decoder.Decode(&value); err != nil {
					t.Fatal(err)
				}
				if key == segment.key {
					count++
					found = value
				}
			}
			if count > 1 {
				return nil, false
			}
			raw = found
		case '[':
			var list []json.RawMessage
			if err := json.Unmarshal(raw, &list); err != nil {
				t.Fatal(err)
			}
			if segment.index < 0 || segment.index >= len(list) {
				return nil, true
			}
			raw = list[segment.index]
		default:
			return nil, true
		}
	}
	return bytes.TrimSpace(raw), true
}

func compareWithLibrary(t testing.TB, doc []byte, p pointer) {
	got, _ := p.find(doc)
	text := p.text(doc)
	if !json.Valid(doc) {
		return // Anything but a crash is right.
	}
	want, decidable := lookup(t, doc, p)
	if !decidable {
		return
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%v of %q: %q, want %q", p, doc, got, want)
	}
	var s string
	if len(want) > 0 && want[0] == '"' && bytes.IndexByte(want, '\\') >= 0 {
		if err := json.Unmarshal(want, &s); err != nil || s != string(text) {
			t.Fatalf("%v of %q: text %q, want %q", p, doc, text, s)
		}
	}
}

func TestPointersAgreeWithTheStandardLibrary(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	keys := []string{"id", "a", "", "é", "0", "1", "x/y", "q\"", "tab\t", "~"}
	var value func(depth int) any
	value = func(depth int) any {
		switch n := random.IntN(8); {
		case n < 2 && depth < 5:
			object := map[string]any{}
			for range random.IntN(5) {
				object[keys[random.IntN(len(keys))]] = value(depth + 1)
			}
			return object
		case n < 4 && depth < 5:
			list := []any{}
			for range random.IntN(4) {
				list = append(list, value(depth+1))
			}
			return list
		case n == 4:
			return random.Float64() * 1e6
		case n == 5:
			return []any{true, false, nil}[random.IntN(3)]
		}
		return keys[random.IntN(len(keys))] + "\\\"]}" + strconv.Itoa(random.IntN(99))
	}
	for range 3000 {
		doc, err := json.Marshal(map[string]any{"id": value(0), "a": value(0), "x/y": value(0)})
		if err != nil {
			t.Fatal(err)
		}
		if random.IntN(2) == 0 {
			var spaced bytes.Buffer
			if err := json.Indent(&spaced, doc, " ", "\t"); err != nil {
				t.Fatal(err)
			}
			doc = spaced.Bytes()
		}
		text := ""
		for range 1 + random.IntN(4) {
			key := keys[random.IntN(len(keys))]
			text += "/" + strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
		}
		p, err := parsePointer(text)
		if err != nil {
			t.Fatal(err)
		}
		compareWithLibrary(t, doc, p)
	}
}

func TestAPointerNeedsNoMemory(t *testing.T) {
	p, err := parsePointer("/data/object/id")
	if err != nil {
		t.Fatal(err)
	}
	doc := []byte(`{"x":[1,2,{"y":"z"}],"data":{"object":{"n":1.5,"id":"evt_1"}}}`)
	if n := testing.AllocsPerRun(100, func() { p.text(doc) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzPointer(f *testing.F) {
	for _, pair := range [][2]string{
		{"/id", `{"id":"evt_1"}`}, {"/a/0/b", `{"a":[{"b":1e9}]}`}, {"/é", `{"\u00e9":"\ud83d\ude00"}`},
		{"/a", `{"a":"\`}, {"/a~1b", `{"x":{"y":[[]]},"a/b":null}`}, {"/a", `[}`},
	} {
		f.Add(pair[0], []byte(pair[1]))
	}
	f.Fuzz(func(t *testing.T, text string, doc []byte) {
		p, err := parsePointer(text)
		if err != nil {
			return
		}
		compareWithLibrary(t, doc, p)
	})
}

func ExampleSource() {
	source, err := ParseSource("json:/data/id")
	fmt.Println(source, err)
	// Output: json:/data/id <nil>
}
