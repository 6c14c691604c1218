package share

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/go/internal/breaker"
)

const (
	noteVersion = 1
	noteMax     = 4096 // bytes of an encoded note
	nameMax     = 128  // bytes of the name of a breaker or host
	reasonMax   = 512  // bytes; a longer one is cut
	stepMax     = 1000
	cooldownMax = 24 * time.Hour
)

// noteJSON is a note as it lies in Redis, behind its rank and a line feed. A version that is not
// known is ignored, so that hosts of two releases may share a prefix.
type noteJSON struct {
	Version    int       `json:"v"`
	Breaker    string    `json:"breaker"`
	Host       string    `json:"host"`
	State      string    `json:"state"`
	Term       uint64    `json:"term"`
	Reason     string    `json:"reason,omitempty"`
	At         time.Time `json:"at,omitzero"`
	Until      time.Time `json:"until,omitzero"`
	CooldownMS int64     `json:"cooldown_ms,omitempty"`
	Step       int       `json:"step,omitempty"`
	Forced     bool      `json:"forced,omitempty"`
}

// newer tells that n counts rather than o, of one breaker.
func newer(n, o breaker.Note) bool { return n.Compare(o) > 0 }

// rank is a text whose byte order is that of Note.Compare. The scripts compare it, since Lua's
// numbers are too short for a term.
func rank(n breaker.Note) string {
	class, step := 0, 0
	switch {
	case n.Forced:
		class = 3
	case n.State == breaker.Open:
		class = 2
	case n.State == breaker.HalfOpen:
		class, step = 1, stepMax-n.Step
	}
	return fmt.Sprintf("%020d %d%04d %s", n.Term, class, step, n.Host)
}

func encode(n breaker.Note) (string, error) {
	if err := check(n); err != nil {
		return "", err
	}
	text, err := json.Marshal(noteJSON{
		Version: noteVersion, Breaker: n.Breaker, Host: n.Host, State: n.State.String(),
		Term: n.Term, Reason: cut(n.Reason), At: n.At, Until: n.Until,
		CooldownMS: n.Cooldown.Milliseconds(), Step: n.Step, Forced: n.Forced,
	})
	if err != nil {
		return "", fmt.Errorf("encode the note: %w", err)
	}
	if whole := rank(n) + "\n" + string(text); len(whole) <= noteMax {
		return whole, nil
	}
	return "", fmt.Errorf("the note is longer than %d bytes", noteMax)
}

// decode reads what encode wrote, and refuses what it could not have written.
func decode(whole string) (breaker.Note, error) {
	if len(whole) > noteMax {
		return breaker.Note{}, errors.New("too long")
	}
	ranked, text, _ := strings.Cut(whole, "\n")
	var j noteJSON
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return breaker.Note{}, err
	}
	if j.Version != noteVersion {
		return breaker.Note{}, fmt.Errorf("version %d", j.Version)
	}
	state, err := breaker.ParseState(j.State)
	if err != nil {
		return breaker.Note{}, err
	}
	n := breaker.Note{
		Breaker: j.Breaker, Host: j.Host, State: state, Term: j.Term, Reason: cut(j.Reason),
		At: j.At, Until: j.Until, Cooldown: time.Duration(j.CooldownMS) * time.Millisecond,
		Step: j.Step, Forced: j.Forced,
	}
	if ranked != rank(n) {
		return breaker.Note{}, errors.New("the rank is another note's")
	}
	if j.CooldownMS < 0 || j.CooldownMS > cooldownMax.Milliseconds() {
		return breaker.Note{}, errors.New("a cooldown out of bounds")
	}
	return n, check(n)
}

func check(n breaker.Note) error {
	switch {
	case n.Breaker == "" || len(n.Breaker) > nameMax:
		return fmt.Errorf("the breaker's name has %d bytes, want 1 to %d", len(n.Breaker), nameMax)
	case n.Host == "" || len(n.Host) > nameMax || strings.Contains(n.Host, "\n"):
		return fmt.Errorf("the host's name has a line feed or %d bytes, want 1 to %d", len(n.Host),
			nameMax)
	case n.State > breaker.HalfOpen:
		return fmt.Errorf("no such state: %v", n.State)
	case n.Step < 0 || n.Step > stepMax:
		return fmt.Errorf("step %d, want 0 to %d", n.Step, stepMax)
	case n.Cooldown < 0 || n.Cooldown > cooldownMax:
		return fmt.Errorf("cooldown %v, want up to %v", n.Cooldown, cooldownMax)
	}
	return nil
}

func cut(reason string) string {
	if len(reason) <= reasonMax {
		return reason
	}
	return strings.ToValidUTF8(reason[:reasonMax], "")
}
