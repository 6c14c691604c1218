package ingest

import "testing"

func TestTheQueryOfARequestBelongsToItsURL(t *testing.T) {
	for _, c := range []struct{ url, target, want string }{
		{"", "/hooks/x?a=1", ""},
		{"https://a.example/hooks/x", "/hooks/x", "https://a.example/hooks/x"},
		{"https://a.example/hooks/x", "/hooks/x?a=1&b=?", "https://a.example/hooks/x?a=1&b=?"},
		{"https://a.example/hooks/x?k=1", "/hooks/x?a=1", "https://a.example/hooks/x?k=1"},
	} {
		if got := (&Source{URL: c.url}).publicURL(nil, []byte(c.target)); string(got) != c.want {
			t.Errorf("%s of %s is %s, want %s", c.target, c.url, got, c.want)
		}
	}
}
