package provider

import (
	"bytes"
	"iter"
	"slices"
	"strings"
)

var headerMistakes = []mistake{
	{
		name: "header-renamed", facet: facetHeader, fault: faultProxy,
		says: "a field that the scheme needs came under another name",
		mend: "hand the fields on under their own names (nginx: underscores_in_headers; CGI and WSGI " +
			"write HTTP_X_NAME)",
		try: renamed,
	}, {
		name: "header-twice", facet: facetHeader, fault: faultProxy,
		says: "a field that may be there once came twice, or twice in one joined by a comma",
		mend: "let the proxy set the field, not add to it",
		try:  repeatedFields,
	},
}

// needed are the names of the fields that the scheme reads, in lower case.
func (a attempt) needed() []string {
	var list []string
	add := func(s Source) {
		if s.Kind == SourceHeader {
			list = append(list, strings.ToLower(s.Name))
		}
	}
	for i := range a.scheme.AnyOf {
		v := &a.scheme.AnyOf[i]
		add(v.Signature)
		add(v.Timestamp.From)
		add(v.KeyID)
		for _, part := range v.Content {
			add(part.Source)
		}
		for _, match := range v.Require {
			add(match.From)
		}
		if v.Proofs[0].Algorithm == MessageSignature {
			list = append(list, "signature", "signature-input", "content-digest")
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// plainName is a field's name without what gateways make of it.
func plainName(name []byte) string {
	text := strings.ReplaceAll(strings.ToLower(string(name)), "_", "-")
	for _, prefix := range []string{
		"http-", "x-amzn-remapped-", "x-original-", "x-forwarded-", "x-",
	} {
		text = strings.TrimPrefix(text, prefix)
	}
	return text
}

// renamed gives every missing field the value of one whose name differs by what gateways do.
func renamed(a attempt) iter.Seq[attempt] {
	return func(yield func(attempt) bool) {
		fields := slices.Clone(a.request.Headers)
		var names []string
		for _, name := range a.needed() {
			has := func(f Field) bool { return equalFold(f.Name, name) }
			if slices.ContainsFunc(fields, has) {
				continue
			}
			at := slices.IndexFunc(fields, func(f Field) bool {
				return plainName(f.Name) == plainName([]byte(name))
			})
			if at >= 0 {
				names = append(names, string(fields[at].Name)+" as "+name)
				fields[at].Name = []byte(name)
			}
		}
		if len(names) > 0 {
			yield(a.withHeaders(fields, strings.Join(names, ", ")))
		}
	}
}

// repeatedFields leaves one of the values of each field that the scheme reads: once the first one,
// once the last one.
func repeatedFields(a attempt) iter.Seq[attempt] {
	return func(yield func(attempt) bool) {
		for _, last := range []bool{false, true} {
			with := "the first one"
			if last {
				with = "the last one"
			}
			if fields, changed := a.single(last); changed && !yield(a.withHeaders(fields, with)) {
				return
			}
		}
	}
}

func (a attempt) single(last bool) (fields []Field, changed bool) {
	needed := a.needed()
	at := map[string]int{}
	for _, field := range a.request.Headers {
		name := strings.ToLower(string(field.Name))
		if !slices.Contains(needed, name) {
			fields = append(fields, field)
			continue
		}
		if half, ok := halfOf(field.Value); ok {
			field.Value, changed = half, true
		}
		where, twice := at[name]
		if !twice {
			at[name] = len(fields)
			fields = append(fields, field)
			continue
		}
		if changed = true; last {
			fields[where] = field
		}
	}
	return fields, changed
}

// halfOf is the value that a joined field repeats.
func halfOf(value []byte) ([]byte, bool) {
	text := trimBlank(value)
	for _, by := range []string{", ", ",", "; "} {
		n := (len(text) - len(by)) / 2
		if n > 0 && 2*n+len(by) == len(text) && bytes.Equal(text[:n], text[n+len(by):]) &&
			string(text[n:n+len(by)]) == by {
			return text[:n], true
		}
	}
	return nil, false
}

// profileMistakes are last: that another profile fits says something once nothing else does.
var profileMistakes = []mistake{{
	name: "wrong-provider", facet: facetProfile, fault: faultSource,
	says: "body and secret are right, but the request is signed as another sender signs",
	mend: "set the provider of the source to the one found here; if the sender signs twice, the " +
		"field for this profile was lost or changed on its way",
	try: func(a attempt) iter.Seq[attempt] {
		return func(yield func(attempt) bool) {
			for _, other := range a.others {
				if other == a.scheme || other.Unsigned() || other.AnyOf[0].Proofs[0].Algorithm.keyless() {
					continue
				}
				b := a
				b.scheme, b.compiled = other, nil
				b.with = "the provider " + other.Name + " (" + other.AnyOf[0].Signature.String() + ")"
				if !yield(b) {
					return
				}
			}
		}
	},
}}
