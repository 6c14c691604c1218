package catalogue

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"go.yaml.in/yaml/v3"

	"sluice/go/internal/provider"
)

// Parse reads one scheme. The error joins a *Fault for everything that is wrong.
func Parse(text []byte) (*provider.Scheme, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	var document yaml.Node
	if err := decoder.Decode(&document); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, &Fault{Line: 1, Text: "the scheme is empty"}
		}
		return nil, fmt.Errorf("scheme: %w", err)
	}
	var more yaml.Node
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, &Fault{Line: max(more.Line, 1), Text: "text behind the scheme"}
	}
	return ParseNode(document.Content[0])
}

// ParseNode reads one scheme out of a larger document, whose line numbers the faults then have.
func ParseNode(node *yaml.Node) (*provider.Scheme, error) {
	r := &report{lines: map[string]int{}}
	b := r.block(node, "")
	scheme := &provider.Scheme{Title: b.text("title"), Setup: b.text("setup")}
	if variants := b.list("any_of"); variants != nil {
		for i, node := range variants {
			v := r.block(node, fmt.Sprintf("any_of[%d]", i))
			one := variant(v)
			one.ID = sources(v, "id")
			v.end()
			scheme.AnyOf = append(scheme.AnyOf, one)
		}
	} else {
		scheme.AnyOf = []provider.Variant{variant(b)}
	}
	scheme.ID = sources(b, "id")
	scheme.Type = sources(b, "type")
	if node := b.take("batch"); node != nil {
		m := r.block(node, b.at("batch"))
		scheme.Batch = &provider.Batch{
			Items: value(m, "items", provider.ParseSource),
			ID:    oneOrMore(m, "id"),
			Type:  oneOrMore(m, "type"),
		}
		m.end()
	}
	for i, node := range b.list("handshakes") {
		scheme.Handshakes = append(scheme.Handshakes,
			handshake(r.block(node, fmt.Sprintf("%s[%d]", b.at("handshakes"), i))))
	}
	if node := b.take("contract"); node != nil {
		scheme.Contract = contract(r.block(node, b.at("contract")))
	}
	b.end()
	if err := r.err(); err != nil {
		return nil, err
	}
	if err := scheme.Check(); err != nil {
		var fault *provider.SchemeError
		if !errors.As(err, &fault) {
			return nil, &Fault{Line: node.Line, Text: err.Error()}
		}
		key, line := r.place(fault.Path)
		return nil, &Fault{Line: line, Key: key, Text: fault.Reason}
	}
	return scheme, nil
}

// variant reads the keys of a variant that stand in b, and leaves end to the caller: a scheme with
// one variant has its keys at the top.
func variant(b *block) provider.Variant {
	v := provider.Variant{
		Signature:    value(b, "signature", provider.ParseSource),
		KeyID:        value(b, "key_id", provider.ParseSource),
		Each:         value(b, "each", provider.ParseEach),
		BodyHash:     value(b, "body_hash", provider.ParseSource),
		MaxAge:       value(b, "max_age", parseDuration),
		Legacy:       value(b, "legacy", parseBool),
		UnsignedBody: value(b, "unsigned_body", parseBool),
	}
	if node := b.take("items"); node != nil {
		items := b.block(node, b.at("items"))
		v.Items.Separator = value(items, "separator", parseByte)
		v.Items.Assign = value(items, "assign", parseByte)
		v.Items.KeyIDs = value(items, "label", parseKeyIDs)
		items.end()
	}
	if node := b.take("jws"); node != nil {
		m := b.block(node, b.at("jws"))
		v.JWS = &provider.JWS{
			Leeway: value(m, "leeway", parseDuration), Expires: value(m, "expires", parseBool),
		}
		m.end()
	}
	if nodes := b.list("proofs"); nodes != nil {
		for i, node := range nodes {
			p := b.block(node, fmt.Sprintf("%s[%d]", b.at("proofs"), i))
			v.Proofs = append(v.Proofs, proof(p))
			p.end()
		}
	} else {
		v.Proofs = []provider.Proof{proof(b)}
	}
	for i, node := range b.list("content") {
		v.Content = append(v.Content, part(b, follow(node), fmt.Sprintf("%s[%d]", b.at("content"), i)))
	}
	if node := b.take("timestamp"); node != nil {
		t := b.block(node, b.at("timestamp"))
		v.Timestamp = provider.Timestamp{
			From:       value(t, "from", provider.ParseSource),
			Format:     value(t, "format", provider.ParseTimeFormat),
			Tolerance:  value(t, "tolerance", parseDuration),
			Future:     value(t, "future", parseDuration),
			JSONString: value(t, "json_string", parseBool),
			Optional:   value(t, "optional", parseBool),
		}
		t.end()
	}
	for _, node := range b.list("components") {
		v.Components = append(v.Components, node.Value)
	}
	v.Require = matches(b, "require")
	return v
}

func proof(b *block) provider.Proof {
	p := provider.Proof{
		Label:      b.text("label"),
		Algorithm:  value(b, "algorithm", provider.ParseAlgorithm),
		Encoding:   value(b, "encoding", provider.ParseEncoding),
		Prefix:     b.text("prefix"),
		PrefixFold: value(b, "prefix_fold", parseBool),

		PrefixOptional: value(b, "prefix_optional", parseBool),
		Raw:            value(b, "raw", parseBool),
	}
	if node := b.take("key"); node != nil {
		k := b.block(node, b.at("key"))
		p.Key = provider.KeyForm{
			Prefix:         k.text("prefix"),
			PrefixRequired: value(k, "prefix_required", parseBool),
			PrefixRefused:  value(k, "prefix_refused", parseBool),
			Encoding:       value(k, "encoding", provider.ParseKeyEncoding),
			Role:           k.text("role"),
			Normalize:      value(k, "normalize", parseNormalize),
		}
		if node := k.take("remote"); node != nil {
			p.Key.Remote = remote(k.block(node, k.at("remote")))
		}
		k.end()
	}
	return p
}

var partWords = map[string]provider.PartKind{
	"body": provider.PartBody, "method": provider.PartMethod, "url": provider.PartURL,
	"target": provider.PartTarget, "timestamp": provider.PartTimestamp,
	"form": provider.PartForm, "url-with-port": provider.PartURLWithPort,
	"url-without-port": provider.PartURLWithoutPort,
	"body-crc32":       provider.PartBodyCRC32, "body-sha256": provider.PartBodySHA256,
}

func part(b *block, node *yaml.Node, path string) provider.Part {
	if node.Kind == yaml.MappingNode {
		return partOf(b.block(node, path))
	}
	if kind, known := partWords[node.Value]; known {
		return provider.Part{Kind: kind}
	}
	source, err := provider.ParseSource(node.Value)
	if err != nil {
		b.add(node.Line, path, err.Error()+
			", or body, body-crc32, body-sha256, form, method, url, url-with-port, "+
			"url-without-port, target, timestamp, or {literal: TEXT}, {optional: SOURCE}, "+
			"{secret: ROLE}, {headers: SOURCE}")
	}
	return provider.Part{Kind: provider.PartSource, Source: source}
}

// partOf reads a part with parameters.
func partOf(m *block) provider.Part {
	var p provider.Part
	switch {
	case m.values["optional"] != nil:
		p = provider.Part{
			Kind: provider.PartSource, Source: value(m, "optional", provider.ParseSource),
			Optional: true, Before: m.text("before"), After: m.text("after"),
		}
	case m.values["secret"] != nil:
		p = provider.Part{
			Kind: provider.PartSecret, Role: m.text("secret"),
			Source: value(m, "from", provider.ParseSource),
		}
	case m.values["headers"] != nil:
		p = provider.Part{
			Kind: provider.PartHeaders, Source: value(m, "headers", provider.ParseSource),
			List: provider.List{
				Separator: value(m, "separator", parseByte), Assign: value(m, "assign", parseByte),
				Join: value(m, "join", parseByte),
			},
		}
	default:
		p = provider.Part{Kind: provider.PartLiteral, Literal: m.text("literal")}
	}
	m.end()
	return p
}

// remote reads where a sender publishes its keys.
func remote(b *block) *provider.Remote {
	r := &provider.Remote{
		Form:    value(b, "form", provider.ParseRemoteForm),
		URL:     b.text("url"),
		URLFrom: value(b, "url_from", provider.ParseSource),
		Path:    b.text("path"),
		At:      value(b, "at", provider.ParseSource),
		Name:    b.text("name"),
	}
	for _, node := range b.list("hosts") {
		r.Hosts = append(r.Hosts, follow(node).Value)
	}
	if node := b.take("post"); node != nil {
		fields := b.block(node, b.at("post"))
		for _, key := range fields.keys {
			r.Post = append(r.Post, provider.PostField{
				Name: key.Value, From: value(fields, key.Value, provider.ParsePostValue),
			})
		}
	}
	b.end()
	return r
}

func sources(b *block, key string) []provider.Source {
	var list []provider.Source
	for i, node := range b.list(key) {
		source, err := provider.ParseSource(follow(node).Value)
		if err != nil {
			b.add(node.Line, fmt.Sprintf("%s[%d]", b.at(key), i), err.Error())
		}
		list = append(list, source)
	}
	return list
}

// oneOrMore reads a source, or a list of them.
func oneOrMore(b *block, key string) []provider.Source {
	if node := b.values[key]; node != nil && follow(node).Kind == yaml.ScalarNode {
		return []provider.Source{value(b, key, provider.ParseSource)}
	}
	return sources(b, key)
}

func matches(b *block, key string) []provider.Match {
	var list []provider.Match
	for i, node := range b.list(key) {
		m := b.block(node, fmt.Sprintf("%s[%d]", b.at(key), i))
		list = append(list, provider.Match{
			From:   value(m, "from", provider.ParseSource),
			Equals: m.text("equals"),
			Media:  m.text("media"),
			Absent: value(m, "absent", parseBool),
			Secret: m.text("secret"),
		})
		m.end()
	}
	return list
}

var answerWords = []struct {
	word string
	kind provider.AnswerKind
}{{"echo", provider.Echo}, {"echo_json", provider.EchoJSON}, {"echo_hmac", provider.EchoHMAC}}

func handshake(b *block) provider.Handshake {
	h := provider.Handshake{
		Name:        b.text("name"),
		Method:      b.text("method"),
		Signed:      value(b, "signed", parseBool),
		Match:       matches(b, "match"),
		Status:      value(b, "status", parseNumber),
		ContentType: b.text("content_type"),
	}
	if node := b.take("headers"); node != nil {
		fields := b.block(node, b.at("headers"))
		for _, key := range fields.keys {
			field := provider.AnswerField{Name: key.Value}
			if node := fields.take(key.Value); node.Kind == yaml.MappingNode {
				field.Value = answerPart(fields.block(node, fields.at(key.Value)))
			} else {
				field.Value = provider.AnswerPart{
					Kind: provider.AnswerLiteral, Literal: fields.text(key.Value),
				}
			}
			h.Headers = append(h.Headers, field)
		}
	}
	for i, node := range b.list("body") {
		h.Body = append(h.Body,
			answerPart(b.block(node, fmt.Sprintf("%s[%d]", b.at("body"), i))))
	}
	if node := b.take("store"); node != nil {
		m := b.block(node, b.at("store"))
		h.Store = &provider.Store{
			Role: m.text("role"), From: value(m, "from", provider.ParseSource),
		}
		m.end()
	}
	b.end()
	return h
}

func answerPart(b *block) provider.AnswerPart {
	part := provider.AnswerPart{Kind: provider.AnswerLiteral, Literal: b.text("literal")}
	for _, word := range answerWords {
		if source := value(b, word.word, provider.ParseSource); source.Kind != provider.SourceNone {
			part = provider.AnswerPart{Kind: word.kind, From: source}
		}
	}
	b.end()
	return part
}

func contract(b *block) provider.Contract {
	c := provider.Contract{
		Deadline:            fact(b, "deadline", parseDuration),
		ConnectDeadline:     fact(b, "connect_deadline", parseDuration),
		SuccessStatus:       fact(b, "success_status", parseNumber),
		EmptySuccess:        fact(b, "empty_success", parseBool),
		ShedStatus:          fact(b, "shed_status", parseNumber),
		NeverRetries:        fact(b, "never_retries", parseBool),
		Retries:             fact(b, "retries", parseNumber),
		RetryWindow:         fact(b, "retry_window", parseDuration),
		HonoursRetryAfter:   fact(b, "honours_retry_after", parseBool),
		DisableAfter:        fact(b, "disable_after", parseNumber),
		ProbesBadSignatures: fact(b, "probes_bad_signatures", parseBool),
		Redelivers:          fact(b, "redelivers", parseBool),
		Ordered:             fact(b, "ordered", parseBool),
		SuccessStatuses:     facts(b, "success_statuses", parseNumber),
		RetryStatuses:       facts(b, "retry_statuses", parseNumber),
		DropStatuses:        facts(b, "drop_statuses", parseNumber),
		DisableStatuses:     facts(b, "disable_statuses", parseNumber),
		RetryHeaders:        facts(b, "retry_headers", provider.ParseFieldName),
	}
	for _, node := range b.list("methods") {
		c.Methods = append(c.Methods, node.Value)
	}
	b.end()
	return c
}

// fact reads {value, source, verified, checked}. A fact without a source is no fact.
func fact[T time.Duration | int | bool](
	b *block, key string, parse func(string) (T, error),
) provider.Fact[T] {
	node := b.take(key)
	if node == nil {
		return provider.Fact[T]{}
	}
	f := b.block(node, b.at(key))
	result := provider.Fact[T]{Value: value(f, "value", parse)}
	if f.values["value"] == nil {
		b.add(node.Line, b.at(key), "value is missing")
	}
	result.Source, result.Verified, result.Checked = evidence(f)
	f.end()
	return result
}

// facts reads {value: [...], source, verified, checked}.
func facts[T any](b *block, key string, parse func(string) (T, error)) provider.Fact[[]T] {
	var result provider.Fact[[]T]
	node := b.take(key)
	if node == nil {
		return result
	}
	f := b.block(node, b.at(key))
	for _, node := range f.list("value") {
		one, err := parse(follow(node).Value)
		if err != nil {
			b.add(node.Line, b.at(key), err.Error())
		}
		result.Value = append(result.Value, one)
	}
	if len(result.Value) == 0 {
		b.add(node.Line, b.at(key), "value is missing")
	}
	result.Source, result.Verified, result.Checked = evidence(f)
	f.end()
	return result
}

func evidence(f *block) (source string, verified bool, checked string) {
	source, verified = f.text("source"), value(f, "verified", parseBool)
	if source == "" {
		f.add(f.line, f.path, "source is missing")
	}
	return source, verified, value(f, "checked", parseDay)
}
