package main

import (
	"embed"
	"encoding/json"
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
	if text, err := bodies.ReadFile("bodies/" + s.Name + ".json"); err == nil {
		return []byte(strings.NewReplacer(
			"{{id}}", id, "{{time}}", now.UTC().Format(time.RFC3339),
		).Replace(string(text))), jsonType
	}
	object := map[string]any{"test": true, "created_at": now.UTC().Format(time.RFC3339)}
	for i := range s.AnyOf {
		for _, part := range s.AnyOf[i].Content {
			if part.Source.Kind == provider.SourceJSON {
				plant(object, part.Source.Name, id)
			}
		}
		if t := s.AnyOf[i].Timestamp; t.From.Kind == provider.SourceJSON {
			plant(object, t.From.Name, bodyTime(t.Format, now))
		}
	}
	for _, source := range s.Type {
		if source.Kind == provider.SourceJSON {
			plant(object, source.Name, testType)
			break
		}
	}
	for _, source := range s.ID {
		if source.Kind == provider.SourceJSON {
			plant(object, source.Name, id)
			break
		}
	}
	body, err := json.Marshal(object)
	if err != nil {
		return []byte("{}"), jsonType // maps of texts and numbers always encode
	}
	return body, jsonType
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
