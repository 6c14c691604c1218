package provider

import (
	"bytes"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// The parts that are made of the URL or of the body and are not slices of them. They cost memory
// for each request, which only the few schemes that sign them pay.

// derived is the text of such a part; false if URL or body have not the form that it needs.
func (k PartKind) derived(publicURL string, body []byte) ([]byte, bool) {
	switch k {
	case PartForm:
		return sortedForm(body)
	case PartURLWithPort:
		return withPort(publicURL, true)
	case PartURLWithoutPort:
		return withPort(publicURL, false)
	}
	return nil, false
}

// sortedForm is the name and value of each parameter of a form, by name and then by value, without
// the repetitions.
func sortedForm(body []byte) ([]byte, bool) {
	if len(body) > formBodyMax {
		return nil, false
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, false
	}
	var text bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(values)) {
		slices.Sort(values[name])
		for _, value := range slices.Compact(values[name]) {
			text.WriteString(name)
			text.WriteString(value)
		}
	}
	return text.Bytes(), true
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

// withPort adds the default port to a URL that has none, or takes off the one that it has. The rest
// stays byte for byte, which net/url does not promise.
func withPort(publicURL string, wanted bool) ([]byte, bool) {
	scheme, rest, found := strings.Cut(publicURL, "://")
	if !found || defaultPorts[scheme] == "" {
		return nil, false
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	host, has := rest[:end], false
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexByte(host, ']') {
		has = true
		if !wanted {
			host = host[:colon]
		}
	}
	if wanted && !has {
		host += ":" + defaultPorts[scheme]
	}
	return []byte(scheme + "://" + host + rest[end:]), true
}

// appendListed writes the header fields that the request lists, in the order of the list. Each must
// be there once, and with must the list has that name; false otherwise.
func (l List) appendListed(dst []byte, r *Request, names []byte, must string) ([]byte, bool) {
	covered := must == ""
	for n := 0; len(names) > 0; n++ {
		var name []byte
		name, names, _ = bytes.Cut(names, []byte{l.Separator})
		lower := strings.ToLower(string(trimBlank(name)))
		value, count := []byte(nil), 0
		for i := range r.Headers {
			if equalFold(r.Headers[i].Name, lower) {
				value = trimBlank(r.Headers[i].Value)
				count++
			}
		}
		if count != 1 || n == componentsMax {
			return dst, false
		}
		if n > 0 {
			dst = append(dst, l.Join)
		}
		dst = append(append(append(dst, lower...), l.Assign), value...)
		covered = covered || lower == must
	}
	return dst, covered
}

// mediaType is a Content-Type without its parameters, so that a charset does not change it.
func mediaType(value []byte) []byte {
	if at := bytes.IndexByte(value, ';'); at >= 0 {
		value = value[:at]
	}
	return trimBlank(value)
}
