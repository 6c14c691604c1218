package reconcile

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// within gives the value that a JSON pointer (RFC 6901) leads to; an empty one leads to the whole.
// Numbers are as they were written.
func within(raw json.RawMessage, pointer string) (json.RawMessage, bool) {
	if pointer == "" {
		return raw, len(raw) > 0
	}
	for part := range strings.SplitSeq(pointer[1:], "/") {
		key := strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		var object map[string]json.RawMessage
		var list []json.RawMessage
		if json.Unmarshal(raw, &object) == nil {
			value, found := object[key]
			if !found {
				return nil, false
			}
			raw = value
			continue
		}
		index, err := strconv.Atoi(key)
		if err != nil || json.Unmarshal(raw, &list) != nil || index < 0 || index >= len(list) {
			return nil, false
		}
		raw = list[index]
	}
	return raw, true
}

// textAt is the string or number that a pointer leads to; false for what is neither.
func textAt(raw json.RawMessage, pointer string) (string, bool) {
	value, found := within(raw, pointer)
	if !found {
		return "", false
	}
	var text string
	if json.Unmarshal(value, &text) == nil && string(value) != "null" {
		return text, true
	}
	var number json.Number
	if json.Unmarshal(value, &number) == nil && number != "" {
		return number.String(), true
	}
	return "", false
}

// parseTime reads a time in one of the forms of config.Reconcile.TimeFormat.
func parseTime(format, text string) (time.Time, bool) {
	if format == "rfc3339" {
		at, err := time.Parse(time.RFC3339, text)
		return at, err == nil
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return time.Time{}, false
	}
	if format == "unix-ms" {
		n /= 1000
	}
	return time.UnixMicro(int64(n * 1e6)), true
}

func formatTime(format string, at time.Time) string {
	switch format {
	case "unix-s":
		return strconv.FormatInt(at.Unix(), 10)
	case "unix-ms":
		return strconv.FormatInt(at.UnixMilli(), 10)
	}
	return at.UTC().Format(time.RFC3339)
}
