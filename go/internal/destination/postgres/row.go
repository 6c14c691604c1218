package postgres

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	"sluice/go/internal/destination"
	"sluice/go/internal/event"
)

// row is one event as the table has it. It points at nothing that is the caller's again after the
// attempt: a statement may outlive that.
type row struct {
	id       event.ID
	source   string
	received int64 // ns since 1970
	method   string
	target   string
	orderKey uint64 // 0: none
	attempt  int32

	data    *[]byte // of the pool: headers and body
	headers []byte  // JSON
	body    []byte
}

// rowData keeps the memory of rows between attempts.
var rowData = sync.Pool{New: func() any { return new([]byte) }}

// keptMax is the largest memory of a row that is worth keeping.
const keptMax = 64 << 10

func newRow(r *destination.Request) row {
	data := rowData.Get().(*[]byte)
	*data = appendHeaders((*data)[:0], r.Headers)
	end := len(*data)
	*data = append(*data, r.Body...)
	return row{
		id: r.EventID, source: r.Source, received: r.ReceivedNS, method: r.Method,
		target: storable(r.Target), orderKey: r.OrderKey, attempt: int32(r.Attempt),
		data: data, headers: (*data)[:end], body: (*data)[end:],
	}
}

// free gives the memory back; nobody may look at the row any more.
func (r *row) free() {
	if cap(*r.data) <= keptMax {
		rowData.Put(r.data)
	}
	*r = row{}
}

// compareRows is the order in which locks are taken.
func compareRows(a, b *waiter) int {
	if c := cmp.Compare(a.row.orderKey, b.row.orderKey); c != 0 {
		return c
	}
	return bytes.Compare(a.row.id[:], b.row.id[:])
}

// isText tells whether a text of Postgres can hold these bytes.
func isText(b []byte) bool { return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 }

// storable percent-encodes the bytes of a target that a text does not hold.
func storable(target string) string {
	if isText([]byte(target)) {
		return target
	}
	var out strings.Builder
	for len(target) > 0 {
		char, size := utf8.DecodeRuneInString(target)
		if char == 0 || (char == utf8.RuneError && size == 1) {
			fmt.Fprintf(&out, "%%%02X", target[0])
		} else {
			out.WriteString(target[:size])
		}
		target = target[size:]
	}
	return out.String()
}

// appendHeaders writes a JSON list of pairs.
func appendHeaders(out []byte, headers []destination.Header) []byte {
	out = append(out, '[')
	for i, h := range headers {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '[')
		out = appendJSON(out, h.Name)
		out = append(out, ',')
		out = appendJSON(out, h.Value)
		out = append(out, ']')
	}
	return append(out, ']')
}

// appendJSON writes a JSON string, or {"base64":"…"} where the bytes are no text: replacing what
// does not fit would lose what the sender signed.
func appendJSON(out, value []byte) []byte {
	if !isText(value) {
		out = append(out, `{"base64":"`...)
		out = base64.StdEncoding.AppendEncode(out, value)
		return append(out, `"}`...)
	}
	plain := true
	for _, c := range value {
		plain = plain && c >= ' ' && c < utf8.RuneSelf && c != '"' && c != '\\'
	}
	if plain {
		out = append(out, '"')
		out = append(out, value...)
		return append(out, '"')
	}
	text, _ := json.Marshal(string(value)) // a string has no error to give
	return append(out, text...)
}
