package main

import (
	"embed"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"sluice/go/internal/provider"
)

//go:embed bodies
var bodies embed.FS

const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded"
)

// testBody is a small event as the provider would send it: one of the embedded ones, or one made of
// what the provider's profile looks for in a body.
func testBody(s *provider.Scheme, id string, now time.Time) (body []byte, contentType string) {
	if signsForm(s) {
		return []byte("MessageSid=" + id + "&From=%2B15550100&To=%2B15550101&Body=A+test"), formType
	}
	if form := formFields(s, id); form != nil {
		return []byte(form.Encode()), formType
	}
	if text, err := bodies.ReadFile("bodies/" + s.Name + ".json"); err == nil {
		return []byte(strings.NewReplacer(
			"{{id}}", id, "{{time}}", now.UTC().Format(time.RFC3339),
		).Replace(string(text))), jsonType
	}
	body, err := json.Marshal(testObject(s, id, now))
	if err != nil {
		return []byte("{}"), jsonType // maps of texts and numbers always encode
	}
	return body, jsonType
}

// formFields are what a scheme that has its signature in a form signs; nil: it has not.
func formFields(s *provider.Scheme, id string) url.Values {
	if s.AnyOf[0].Signature.Kind != provider.SourceForm {
		return nil
	}
	form := url.Values{}
	for _, part := range s.AnyOf[0].Content {
		if part.Source.Kind == provider.SourceForm {
			form.Set(part.Source.Name, id)
		}
	}
	return form
}

// testObject has a value wherever the profile looks for one: in the body, or in the only item of
// its batch.
func testObject(s *provider.Scheme, id string, now time.Time) any {
	whole, item := map[string]any{}, map[string]any{}
	inBatch := s.Batch != nil
	signed := whole
	if inBatch && s.AnyOf[0].Each != provider.EachNone {
		signed = item
	}
	signed["test"], signed["created_at"] = true, now.UTC().Format(time.RFC3339)
	for i := range s.AnyOf {
		for _, part := range s.AnyOf[i].Content {
			if part.Source.Kind == provider.SourceJSON {
				plant(signed, part.Source.Name, id)
			}
		}
		if t := s.AnyOf[i].Timestamp; t.From.Kind == provider.SourceJSON {
			plant(signed, t.From.Name, bodyTime(t.Format, now))
		}
	}
	plantFirst(whole, s.Type, testType)
	plantFirst(whole, s.ID, id)
	if !inBatch {
		return whole
	}
	plantFirst(item, s.Batch.Type, testType)
	for _, source := range s.Batch.ID {
		plant(item, source.Name, id)
	}
	if s.Batch.Items.Kind == provider.SourceBody {
		return []any{item}
	}
	plant(whole, s.Batch.Items.Name, []any{item})
	return whole
}

// plantFirst plants a value in the first place that is in the body.
func plantFirst(object map[string]any, places []provider.Source, value any) {
	for _, source := range places {
		if source.Kind == provider.SourceJSON {
			plant(object, source.Name, value)
			return
		}
	}
}

const testType = "test"

func signsForm(s *provider.Scheme) bool {
	for _, part := range s.AnyOf[0].Content {
		if part.Kind == provider.PartForm {
			return true
		}
	}
	return false
}

func bodyTime(f provider.TimeFormat, now time.Time) any {
	switch f {
	case provider.UnixSeconds:
		return now.Unix()
	case provider.UnixMillis:
		return now.UnixMilli()
	}
	return now.UTC().Format(time.RFC3339)
}

// plant puts a value where a JSON pointer (RFC 6901) of a profile looks for it.
func plant(object map[string]any, pointer string, value any) {
	keys := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	unescape := strings.NewReplacer("~1", "/", "~0", "~")
	for _, key := range keys[:len(keys)-1] {
		key = unescape.Replace(key)
		inner, ok := object[key].(map[string]any)
		if !ok {
			inner = map[string]any{}
			object[key] = inner
		}
		object = inner
	}
	object[unescape.Replace(keys[len(keys)-1])] = value
}
