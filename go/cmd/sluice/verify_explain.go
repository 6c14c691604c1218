package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"sluice/go/internal/provider"
	"sluice/go/internal/provider/catalogue"
)

// visibleHead and visibleTail are how many bytes of a long text are shown.
const (
	visibleHead = 240
	visibleTail = 120
)

// explanation is what --explain tells, with the names that scripts see.
type explanation struct {
	Mistakes []likelyMistake `json:"mistakes"`
	// Tried is how many ways were tried to make it hold; Exhausted says that not all were.
	Tried     int          `json:"tried"`
	Exhausted bool         `json:"exhausted"`
	Best      int          `json:"best"` // the index of the way that came furthest
	Ways      []triedWay   `json:"ways"`
	Secrets   []usedSecret `json:"secrets"`

	outcome provider.Outcome
}

type likelyMistake struct {
	Name   string `json:"name"`
	Proven bool   `json:"proven"` // with it undone the signature holds
	With   string `json:"with,omitempty"`
	Says   string `json:"says"`
	Fault  string `json:"fault"`
	Mend   string `json:"mend"`
	Secret *int   `json:"secret,omitempty"`
}

type triedWay struct {
	Outcome    string           `json:"outcome"`
	Detail     string           `json:"detail"`
	Algorithm  string           `json:"algorithm"`
	Signature  string           `json:"signature"`
	Legacy     bool             `json:"legacy"`
	Signed     *signedText      `json:"signed"`
	Candidates []triedSignature `json:"candidates"`
	Time       *signedMoment    `json:"time"`
	Notes      []string         `json:"notes"`
}

// signedText is the signed bytes; Text is quoted and cut in the middle.
type signedText struct {
	Bytes  int    `json:"bytes"`
	SHA256 string `json:"sha256"`
	Text   string `json:"text"`
}

type triedSignature struct {
	Label string `json:"label,omitempty"`
	Text  string `json:"text,omitempty"` // no token
	Fault string `json:"fault,omitempty"`
}

type signedMoment struct {
	Text      string   `json:"text"`
	At        *string  `json:"at"`
	Skew      *float64 `json:"skew_seconds"`      // above 0: the request is old
	Tolerance *float64 `json:"tolerance_seconds"` // nil: none is judged
}

type usedSecret struct {
	Origin  string `json:"origin"`
	KeyID   string `json:"key_id,omitempty"`
	Role    string `json:"role,omitempty"`
	Fault   string `json:"fault,omitempty"`
	Matched bool   `json:"matched"`
}

// catalogueSchemes are those that a request may fit instead.
func catalogueSchemes() []*provider.Scheme {
	var list []*provider.Scheme
	for _, name := range catalogue.Names() {
		scheme, _ := catalogue.Lookup(name)
		list = append(list, scheme)
	}
	return list
}

// writeSigned writes the signed bytes as they are, for a comparison with what the sender has.
func (f *verifyFlags) writeSigned(e *provider.Explanation) error {
	if f.signedTo == "" {
		return nil
	}
	way := &e.Ways[e.Best]
	if way.Signed == nil {
		return fmt.Errorf("--signed-to: there is no signed text: %s", noSignedText(way.Detail))
	}
	if err := os.WriteFile(f.signedTo, way.Signed, 0o600); err != nil {
		return usagef("--signed-to: %w", err)
	}
	return nil
}

func noSignedText(detail string) string {
	if detail == "" {
		return "this sender signs none"
	}
	return detail
}

func (f *verifyFlags) explanation(e *provider.Explanation) *explanation {
	x := &explanation{
		Tried: e.Tried, Exhausted: e.Exhausted, Best: e.Best, outcome: e.Verdict.Outcome,
		Mistakes: []likelyMistake{}, Ways: []triedWay{}, Secrets: []usedSecret{},
	}
	for _, m := range e.Findings {
		one := likelyMistake{Name: m.Name, Proven: m.Proven, With: m.With, Says: m.Says,
			Fault: m.Fault, Mend: m.Mend}
		if m.Secret >= 0 {
			one.Secret = &m.Secret
		}
		x.Mistakes = append(x.Mistakes, one)
	}
	for i := range e.Ways {
		x.Ways = append(x.Ways, newTriedWay(&e.Ways[i]))
	}
	for i, s := range e.Secrets {
		x.Secrets = append(x.Secrets, usedSecret{Origin: secretOrigin(f.secrets[i]), KeyID: s.KeyID,
			Role: s.Role, Fault: s.Fault, Matched: s.Matched})
	}
	return x
}

func newTriedWay(w *provider.Way) triedWay {
	t := triedWay{
		Outcome: w.Outcome.String(), Detail: w.Detail, Algorithm: w.Algorithm,
		Signature: w.Signature, Legacy: w.Legacy, Candidates: []triedSignature{}, Notes: w.Notes,
	}
	if t.Notes == nil {
		t.Notes = []string{}
	}
	if w.Signed != nil {
		sum := sha256.Sum256(w.Signed)
		t.Signed = &signedText{len(w.Signed), hex.EncodeToString(sum[:]), visible(w.Signed)}
	}
	for _, c := range w.Candidates {
		t.Candidates = append(t.Candidates, triedSignature(c))
	}
	if w.Time != nil {
		t.Time = &signedMoment{Text: w.Time.Text}
		if !w.Time.Sent.IsZero() {
			skew := w.Time.Skew.Seconds()
			t.Time.At, t.Time.Skew = moment(w.Time.Sent.UnixNano()), &skew
		}
		if w.Time.Tolerance >= 0 {
			tolerance := w.Time.Tolerance.Seconds()
			t.Time.Tolerance = &tolerance
		}
	}
	return t
}

// secretOrigin is where a secret comes from, and nothing of what it is.
func secretOrigin(text string) string {
	var parts struct{ Value, Password string }
	if json.Unmarshal([]byte(text), &parts) == nil {
		text = parts.Value + parts.Password
	}
	if strings.HasPrefix(text, "env:") || strings.HasPrefix(text, "file:") {
		return text
	}
	return "given"
}

// visible quotes text so that every byte can be seen, and cuts a long one in the middle.
func visible(text []byte) string {
	if len(text) <= visibleHead+visibleTail {
		return quoteBytes(text)
	}
	left := len(text) - visibleHead - visibleTail
	return fmt.Sprintf("%s ... %s left out ... %s", quoteBytes(text[:visibleHead]),
		plural(uint64(left), "byte", "bytes"), quoteBytes(text[len(text)-visibleTail:]))
}

// quoteBytes writes printable ASCII as it is and every other byte as an escape.
func quoteBytes(text []byte) string {
	out := []byte{'"'}
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		case c == '\n':
			out = append(out, `\n`...)
		case c == '\r':
			out = append(out, `\r`...)
		case c == '\t':
			out = append(out, `\t`...)
		case c < ' ' || c > '~':
			out = fmt.Appendf(out, `\x%02x`, c)
		default:
			out = append(out, c)
		}
	}
	return string(append(out, '"'))
}

// rows are the explanation for people: first the mistake, then what it was found in.
func (x *explanation) rows(w io.Writer) {
	for _, m := range x.Mistakes {
		m.rows(w)
	}
	if len(x.Mistakes) == 0 && x.outcome != provider.OK {
		text := fmt.Sprintf("none was found in %d tries", x.Tried)
		if x.Exhausted {
			text += ", where the search ends"
		}
		row(w, "mistake", text+": most likely the sender has another secret, or the body was changed "+
			"in a way that cannot be undone")
	}
	if len(x.Ways) > 0 {
		x.Ways[x.Best].rows(w)
	}
	for i, s := range x.Secrets {
		s.row(w, i)
	}
	for i, way := range x.Ways {
		if i != x.Best {
			text := "ok"
			if way.Outcome != text {
				text = way.Outcome + ": " + way.Detail
			}
			row(w, "another way", strings.TrimSpace(way.Signature+" "+way.Algorithm)+": "+text)
		}
	}
}

func (m *likelyMistake) rows(w io.Writer) {
	row(w, "mistake", m.Name+": "+m.Says)
	if m.Proven && m.With != "" {
		text := m.With + ": then the signature holds"
		if m.Secret != nil {
			text += fmt.Sprintf(", by secret %d", *m.Secret+1)
		}
		row(w, "  proof", text)
	}
	row(w, "  fault of", m.Fault)
	row(w, "  mend", m.Mend)
}

func (t *triedWay) rows(w io.Writer) {
	place := strings.TrimSpace(t.Signature + ", " + t.Algorithm)
	row(w, "scheme", strings.TrimPrefix(place, ", "))
	if t.Signed != nil {
		row(w, "signed", fmt.Sprintf("%s, SHA-256 %s",
			plural(uint64(t.Signed.Bytes), "byte", "bytes"), t.Signed.SHA256))
		row(w, "", t.Signed.Text)
	} else {
		row(w, "signed", "nothing that is known: "+noSignedText(t.Detail))
	}
	for _, c := range t.Candidates {
		text := quoteBytes([]byte(c.Text))
		if c.Text == "" {
			text = "a token"
		}
		if c.Label != "" {
			text = c.Label + " " + text
		}
		if c.Fault != "" {
			row(w, "signature", text+": "+c.Fault)
		} else {
			row(w, "signature", text+" was held against the secrets")
		}
	}
	if t.Time != nil {
		row(w, "time", t.Time.text())
	}
	for _, note := range t.Notes {
		row(w, "before", note)
	}
}

func (m *signedMoment) text() string {
	if m.At == nil {
		return quoteBytes([]byte(m.Text)) + " is no time of the form"
	}
	skew := time.Duration(*m.Skew * float64(time.Second)).Round(time.Millisecond)
	text := quoteBytes([]byte(m.Text)) + " is " + *m.At + ", "
	switch {
	case skew < 0:
		text += (-skew).String() + " after the time of receipt"
	default:
		text += skew.String() + " before the time of receipt"
	}
	if m.Tolerance == nil {
		return text + "; any is allowed"
	}
	return text + "; allowed are " + time.Duration(*m.Tolerance*float64(time.Second)).String()
}

func (s *usedSecret) row(w io.Writer, i int) {
	text := s.Origin
	if s.KeyID != "" {
		text += ", key_id " + s.KeyID
	}
	if s.Role != "" {
		text += ", role " + s.Role
	}
	switch {
	case s.Matched:
		text += ": matched"
	case s.Fault != "":
		text += ": can never match, it " + s.Fault
	default:
		text += ": did not match"
	}
	row(w, fmt.Sprintf("secret %d", i+1), text)
}
