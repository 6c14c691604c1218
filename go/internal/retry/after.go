package retry

import (
	"strings"
	"time"
)

// The three forms of an HTTP date (RFC 9110 §5.6.7); only the first is written today.
var dateLayouts = []string{
	"Mon, 02 Jan 2006 15:04:05 GMT",
	"Monday, 02-Jan-06 15:04:05 GMT",
	"Mon Jan _2 15:04:05 2006",
}

// After reads a Retry-After field (RFC 9110 §10.2.3): whole seconds or an HTTP date. The wait is
// cut to limit. What asks for no wait (a past date, 0) or says nothing (a negative number, garbage)
// gives 0: the caller's own schedule holds.
func After(value string, now time.Time, limit time.Duration) time.Duration {
	value = strings.Trim(value, " \t")
	if value == "" || limit <= 0 {
		return 0
	}
	if wait, ok := afterSeconds(value, limit); ok {
		return wait
	}
	for _, layout := range dateLayouts {
		if at, err := time.Parse(layout, value); err == nil {
			// Sub saturates, so a date in the year 9999 is merely long.
			return min(max(at.Sub(now), 0), limit)
		}
	}
	return 0
}

// afterSeconds reads digits. A number too large for any clock is the limit, not an error.
func afterSeconds(value string, limit time.Duration) (time.Duration, bool) {
	seconds := int64(0)
	most := int64(limit / time.Second)
	for i := range len(value) {
		if value[i] < '0' || value[i] > '9' {
			return 0, false
		}
		if seconds <= most {
			seconds = seconds*10 + int64(value[i]-'0')
		}
	}
	if seconds > most {
		return limit, true
	}
	return time.Duration(seconds) * time.Second, true
}
