package provider

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func split(t *testing.T, b *Batch, body string) (items []string, err error) {
	t.Helper()
	for item, fault := range b.Split([]byte(body)) {
		if fault != nil {
			return items, fault
		}
		id, kind := b.Identify(item.Raw)
		if string(id) != string(item.ID) || string(kind) != string(item.Type) {
			t.Errorf("%s alone is %q %q, in its batch %q %q", item.Raw, id, kind, item.ID, item.Type)
		}
		items = append(items, fmt.Sprintf("%s=%s/%s", item.Raw, item.ID, item.Type))
	}
	return items, nil
}

func TestABatchIsSplitIntoItsItems(t *testing.T) {
	whole := &Batch{
		Items: Source{Kind: SourceBody}, ID: []Source{{SourceJSON, "/id"}},
		Type: []Source{{SourceJSON, "/a/type"}, {SourceJSON, "/type"}},
	}
	within := &Batch{
		Items: Source{SourceJSON, "/data/items"},
		ID:    []Source{{SourceJSON, "/x/ref"}, {SourceJSON, "/code"}},
	}
	long := strings.Repeat("i", idMax+1)
	for _, test := range []struct {
		batch *Batch
		body  string
		want  []string
	}{
		{whole, ` [ {"id":"1","type":"t"} , {"id":2,"a":{"type":"u"},"type":"t"},3,[],"]" ] `,
			[]string{`{"id":"1","type":"t"}=1/t`, `{"id":2,"a":{"type":"u"},"type":"t"}=2/u`, `3=/`,
				`[]=/`, `"]"=/`}},
		{whole, `[]`, nil},
		{whole, `[{"id":"\u0041"},{"id":""},{"id":"` + long + `"}]`, []string{
			`{"id":"\u0041"}=A/`, `{"id":""}=/`, `{"id":"` + long + `"}=/`}},
		{within, `{"a":[1],"data":{"items":[{"x":{"ref":"r"},"code":7},{"code":7}],"n":1}}`,
			[]string{`{"x":{"ref":"r"},"code":7}=r:7/`, `{"code":7}=/`}},
	} {
		if err := test.batch.check(); err != nil {
			t.Fatal(err)
		}
		got, err := split(t, test.batch, test.body)
		if err != nil || strings.Join(got, "|") != strings.Join(test.want, "|") {
			t.Errorf("%s: %q %v", test.body, got, err)
		}
	}
	deep := strings.Repeat("[", nestingMax+1) + strings.Repeat("]", nestingMax+1)
	for _, body := range []string{
		"", "{}", `{"data":{}}`, `{"data":{"items":{}}}`, `{"data":{"items":[1,]}}`,
		`{"data":{"items":[1]}`, `{"data":{"items":[1]}}x`, `{"data":{"items":[1}]}`,
		`{"data":{"items":[1]},"data":{"items":[2]}}`, `{"data":{"items":[1],"it\u0065ms":[2]}}`,
		`{"data":{"items":[` + deep + `]}}`,
	} {
		if got, err := split(t, within, body); !errors.Is(err, ErrNoBatch) || len(got) > 0 {
			t.Errorf("%.60s: %q %v", body, got, err)
		}
	}
	many := "[" + strings.Repeat("1,", batchItemsMax) + "1]"
	if got, err := split(t, whole, many); !errors.Is(err, ErrBatchItems) ||
		len(got) != batchItemsMax {
		t.Errorf("%d items, %v", len(got), err)
	}
	for range whole.Split([]byte("[1,2]")) {
		break // Whoever has enough may stop.
	}
}

func TestABatchIsNamedByAllItsItems(t *testing.T) {
	s := bodyHMAC()
	s.Batch = &Batch{Items: Source{Kind: SourceBody}, ID: []Source{{SourceJSON, "/id"}}}
	v := compile(t, s, Options{}, "k")
	ids := map[string]string{}
	for _, body := range []string{
		`[{"id":"a"}]`, `[{"id":"a"},{"id":"b"}]`, `[{"id":"b"},{"id":"a"}]`, `[{"id":"ab"}]`,
		`[{"id":"a:b"}]`,
	} {
		got := v.Verify(request(body, "X-Sig", signBody("k", body)))
		again := v.Clone().Verify(request(body, "X-Sig", signBody("k", body)))
		id := string(got.EventID)
		if got.Outcome != OK || len(id) != 64 || ids[id] != "" || string(again.EventID) != id {
			t.Errorf("%s: %s %q, as %s", body, got.Outcome, id, ids[id])
		}
		ids[id] = body
	}
	for _, body := range []string{`[]`, `[{"id":"a"},{}]`, `{}`, `x`} {
		got := v.Verify(request(body, "X-Sig", signBody("k", body)))
		if got.Outcome != OK || got.EventID != nil {
			t.Errorf("%s: %s %q", body, got.Outcome, got.EventID)
		}
	}
}

// itemHMAC signs two fields of each item, in the item.
func itemHMAC(each Each) *Scheme {
	return &Scheme{
		Batch: &Batch{Items: Source{SourceJSON, "/items"}, ID: []Source{{SourceJSON, "/id"}}},
		AnyOf: []Variant{{
			Each: each, UnsignedBody: true, Signature: Source{SourceJSON, "/sig"},
			Proofs: []Proof{{Algorithm: HMACSHA256, Encoding: Hex, Prefix: "sha256="}},
			Content: []Part{
				{Kind: PartSource, Source: Source{SourceJSON, "/id"}}, {Kind: PartLiteral, Literal: ":"},
				{Kind: PartSource, Source: Source{SourceJSON, "/n"}, Optional: true},
			},
		}},
	}
}

func TestEachItemOfABatchIsProven(t *testing.T) {
	item := func(key, id, n string) string {
		value := ""
		if n != "" {
			value = `,"n":` + n
		}
		return fmt.Sprintf(`{"id":%q%s,"sig":%q}`, id, value, signBody(key, id+":"+n))
	}
	a, b, bad := item("k", "a", "1"), item("k", "b", ""), item("other", "c", "2")
	twice := strings.Replace(a, `"n":1`, `"n":1,"n":9`, 1)
	for _, test := range []struct {
		items    string
		all, any Outcome
	}{
		{a, OK, OK}, {a + "," + b, OK, OK}, {bad, BadSignature, BadSignature},
		{a + "," + bad, BadSignature, OK}, {bad + "," + a, BadSignature, OK},
		{a + ",{}", MissingHeader, OK}, {a + ",7", MissingHeader, OK}, {"", Malformed, Malformed},
		{twice, Malformed, Malformed}, {a + "," + twice, Malformed, OK},
		{strings.Replace(a, `"n":1`, `"n":2`, 1), BadSignature, BadSignature},
		{strings.Replace(a, `"n":1`, `"n":null`, 1), BadSignature, BadSignature},
	} {
		for each, want := range map[Each]Outcome{EachAll: test.all, EachAny: test.any} {
			v := compile(t, itemHMAC(each), Options{}, "old", "k")
			got := v.Verify(request(`{"items":[` + test.items + `]}`))
			if got.Outcome != want || (want == OK) != (got.Secret == 1) {
				t.Errorf("%s, each %d: %s (%s), want %s", test.items, each, got.Outcome, got.Detail, want)
			}
		}
	}
	v := compile(t, itemHMAC(EachAll), Options{}, "k")
	// Our first list is another one's last.
	for _, body := range []string{
		`{"items":[` + a + `],"items":[` + bad + `]}`, `{"items":[` + a + `]`, `[` + a + `]`,
	} {
		if got := v.Verify(request(body)); got.Outcome != Malformed {
			t.Errorf("%s: %s", body, got.Outcome)
		}
	}
	public := itemHMAC(EachAll)
	public.AnyOf[0].Proofs[0] = Proof{
		Algorithm: Ed25519, Encoding: Hex, Key: KeyForm{Encoding: KeyHex},
	}
	if err := public.Check(); err == nil {
		t.Error("thousands of public key checks in a request")
	}
	alone := itemHMAC(EachAll)
	alone.Batch = nil
	if err := alone.Check(); err == nil {
		t.Error("items of nothing")
	}
}

func FuzzSplit(f *testing.F) {
	for _, body := range []string{
		`[{"id":1},2]`, `{"a":[1]}`, `[`, `[[[]]]`, `["\u0000",1e9]`, `{"a":[],"a":[1]}`,
	} {
		f.Add([]byte(body), true)
		f.Add([]byte(body), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, whole bool) {
		b := &Batch{Items: Source{SourceJSON, "/a"}, ID: []Source{{SourceJSON, "/id"}}}
		if whole {
			b.Items = Source{Kind: SourceBody}
		}
		total, failed := 0, false
		for item, err := range b.Split(body) {
			if failed {
				t.Fatal("an item behind a fault")
			}
			if failed = err != nil; failed {
				continue
			}
			total += len(item.Raw)
			if len(item.Raw) == 0 || total > len(body) || len(item.ID) > idMax {
				t.Fatalf("%q gives %q", body, item.Raw)
			}
		}
	})
}
