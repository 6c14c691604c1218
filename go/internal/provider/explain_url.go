package provider

import (
	"bytes"
	"iter"
	"net/url"
	"slices"
	"strings"
)

var urlMistakes = []mistake{
	{
		name: "wrong-url", facet: facetURL, fault: faultSource,
		says: "the sender signs the URL that it calls, and that is not the one given here",
		mend: "set url of the source (here: --url) to the URL as it is entered at the sender, byte for " +
			"byte",
		try: urls,
	}, {
		name: "wrong-method", facet: facetURL, fault: faultProxy,
		says: "the sender signs the request's method, and it called with another one",
		mend: "hand the method on as it came (say it here with --method)",
		try: func(a attempt) iter.Seq[attempt] {
			return func(yield func(attempt) bool) {
				if !a.signsURL() {
					return
				}
				for _, method := range []string{"POST", "PUT", "GET", "PATCH", "post"} {
					if method != string(a.request.Method) {
						b := a
						b.request.Method, b.with = []byte(method), method
						if !yield(b) {
							return
						}
					}
				}
			}
		},
	},
}

// signsURL tells whether any way to sign covers a part of the request line.
func (a attempt) signsURL() bool {
	return slices.ContainsFunc(a.scheme.AnyOf, func(v Variant) bool {
		return v.Proofs[0].Algorithm == MessageSignature ||
			slices.ContainsFunc(v.Content, func(p Part) bool {
				switch p.Kind {
				case PartMethod, PartURL, PartTarget, PartURLWithPort, PartURLWithoutPort:
					return true
				}
				return false
			})
	})
}

// urls are the URLs under which the sender may know us, the likely ones first.
func urls(a attempt) iter.Seq[attempt] {
	return func(yield func(attempt) bool) {
		if !a.signsURL() {
			return
		}
		had := seen{}
		had.first(a.request.URL)
		for _, base := range bases(&a.request) {
			for text, with := range spellings(base.text) {
				if !had.first([]byte(text)) {
					continue
				}
				b := a
				b.request.URL, b.request.Target = []byte(text), []byte(targetIn(text))
				b.with = base.with + with + ": " + text
				if !yield(b) {
					return
				}
			}
		}
	}
}

type namedURL struct{ text, with string }

// bases are the URL as it is given and those that the fields of proxies speak of.
func bases(r *Request) []namedURL {
	list := []namedURL{{string(r.URL), ""}}
	field := func(name string) string {
		for i := range r.Headers {
			if equalFold(r.Headers[i].Name, name) {
				first, _, _ := bytes.Cut(r.Headers[i].Value, []byte{','})
				return string(trimBlank(first))
			}
		}
		return ""
	}
	scheme, rest, found := strings.Cut(string(r.URL), "://")
	if !found {
		scheme, rest = "https", string(r.Target)
	}
	path := rest[max(0, strings.IndexAny(rest+"/", "/?")):]
	if forwarded := field("x-forwarded-proto"); forwarded != "" {
		scheme = forwarded
	}
	for _, name := range []string{"x-forwarded-host", "x-original-host", "host"} {
		if host := field(name); host != "" {
			list = append(list, namedURL{scheme + "://" + host + path, "the host of " + name + ", "})
		}
	}
	for _, name := range []string{"x-original-url", "x-forwarded-uri", "x-rewrite-url"} {
		text := field(name)
		if strings.HasPrefix(text, "/") {
			host := rest[:len(rest)-len(path)]
			list = append(list, namedURL{scheme + "://" + host + text, "the path of " + name + ", "})
		} else if strings.Contains(text, "://") {
			list = append(list, namedURL{text, "the URL of " + name + ", "})
		}
	}
	return list
}

// spellings are the ways to write the same place that senders tell apart, with each other.
func spellings(text string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		_, rest, found := strings.Cut(text, "://")
		if !found {
			return
		}
		at := strings.IndexAny(rest+"/", "/?#")
		host, rest := rest[:at], rest[at:]
		rest, fragment, _ := strings.Cut(rest, "#")
		path, query, _ := strings.Cut(rest, "?")
		bare := host
		if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
			bare = host[:colon]
		}
		hosts := []string{host, bare, strings.ToLower(host), bare + ":443", bare + ":80",
			bare + ":8080", bare + ":8443", "www." + bare, strings.TrimPrefix(bare, "www.")}
		for _, path := range pathSpellings(path) {
			for _, end := range endSpellings(query, fragment) {
				for _, host := range hosts {
					for _, scheme := range []string{"https", "http"} {
						if !yield(scheme+"://"+host+path+end, "the URL as") {
							return
						}
					}
				}
			}
		}
	}
}

func pathSpellings(path string) []string {
	list := []string{path, strings.TrimSuffix(path, "/"), path + "/", strings.ToLower(path)}
	if plain, err := url.PathUnescape(path); err == nil {
		list = append(list, plain, (&url.URL{Path: plain}).EscapedPath())
	}
	return list
}

func endSpellings(query, fragment string) []string {
	list := []string{"", "?"}
	if query != "" {
		list = append([]string{"?" + query}, list...)
		if plain, err := url.QueryUnescape(query); err == nil {
			list = append(list, "?"+plain)
		}
		if values, err := url.ParseQuery(query); err == nil {
			list = append(list, "?"+values.Encode())
		}
	}
	if fragment != "" {
		for _, end := range list {
			list = append(list, end+"#"+fragment)
		}
	}
	return list
}

// targetIn is the request target of a URL as it stands.
func targetIn(text string) string {
	_, rest, _ := strings.Cut(text, "://")
	rest, _, _ = strings.Cut(rest, "#")
	switch i := strings.IndexAny(rest, "/?"); {
	case i < 0:
		return "/"
	case rest[i] == '?':
		return "/" + rest[i:]
	default:
		return rest[i:]
	}
}
