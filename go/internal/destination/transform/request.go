package transform

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/interpreter"

	"sluice/go/internal/destination"
)

// variables gives CEL the parts of one request, each made when it is first asked for.
type variables struct {
	request *destination.Request
	event   any
	parsed  bool
	headers map[string][]string
	failed  error // of the parse; the evaluation ended with it
}

var _ interpreter.Activation = (*variables)(nil)

// Parent is none.
func (v *variables) Parent() interpreter.Activation { return nil }

// ResolveName gives one variable.
func (v *variables) ResolveName(name string) (any, bool) {
	r := v.request
	switch name {
	case "event":
		if !v.parsed {
			v.parsed = true
			if v.event, v.failed = parse(r.Body); v.failed != nil {
				v.event = types.WrapErr(v.failed)
			}
			v.event = exact(v.event)
		}
		return v.event, true
	case "body":
		return types.Bytes(r.Body), true
	case "headers":
		if v.headers == nil {
			v.headers = headerLists(r.Headers)
		}
		return v.headers, true
	case "source":
		return types.String(r.Source), true
	case "id":
		return types.String(r.EventID.String()), true
	case "method":
		return types.String(valid(r.Method)), true
	case "target":
		return types.String(valid(r.Target)), true
	case "received":
		return types.Timestamp{Time: received(r)}, true
	case "attempt":
		return types.Int(r.Attempt), true
	}
	return nil, false
}

func received(r *destination.Request) time.Time { return time.Unix(0, r.ReceivedNS).UTC() }

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

func headerLists(headers []destination.Header) map[string][]string {
	lists := make(map[string][]string, len(headers))
	for _, h := range headers {
		name := valid(string(bytes.ToLower(h.Name)))
		lists[name] = append(lists[name], valid(string(h.Value)))
	}
	return lists
}

// exact puts values of CEL where a tree has numbers as text. parse bounded its depth.
func exact(value any) any {
	switch v := value.(type) {
	case json.Number:
		return number(v)
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case map[string]any:
		for k, element := range v {
			switch element.(type) {
			case json.Number, []any, map[string]any:
				v[k] = exact(element)
			}
		}
	}
	return value
}
