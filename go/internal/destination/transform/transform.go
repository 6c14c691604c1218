// Package transform evaluates the expressions that an operator writes for a destination: which
// events it gets (CEL) and what body they have there (CEL or jq).
//
// It changes nothing that is stored, makes no attempt and reads no file, variable or clock: the
// same event gives the same result. It is stateless; all values are safe for concurrent use.
//
// # What an expression sees
//
// CEL has the variables
//
//	event     the body parsed as JSON; null where it is no JSON
//	body      the body, bytes
//	headers   lower-case name → list of values, in wire order
//	source    name of the source
//	id        of the event, as text
//	method    of the request
//	target    of the request, query included
//	received  when the request was whole, timestamp
//	attempt   1 for the first; a body that depends on it is another one with each attempt
//
// and header("X-Name"), the first value of that name or "", beside the standard functions, optional
// values, and the libraries of strings, encodings, maths, bindings and comprehensions of two
// variables. jq has the parsed body as its input and the others as $body (text), $headers, $source,
// $id, $method, $target, $received (RFC 3339) and $attempt. Bytes that are not UTF-8 are replaced
// wherever a text is asked for, except in CEL's body.
//
// A filter that asks for a key, an index or a field that the event does not have does not match:
// what lacks the thing asked for is not what was asked for. This holds for != too; has(event.x)
// and event.?x tell the difference. Every other fault of an evaluation is an error. In a transform
// a missing key of CEL is an error as well; jq gives null for it.
//
// # Numbers
//
// Integers of 64 bits are exact. Other numbers calculate as a float64 does, but one that is passed
// on or compared keeps all digits that the sender wrote (in CEL where it stands on the left side).
//
// # Bounds
//
// A sender chooses the body that an operator's expression works on, so work and result are
// bounded; see the constants here and of the checks. What a single step could do without end is
// refused when the expression is read: regular expressions, and in CEL what is searched, replaced
// and joined with, are literals; jq does not multiply strings.
package transform

import (
	"errors"
	"fmt"
	"time"

	"sluice/go/internal/destination"
)

// Bounds of one evaluation.
const (
	bodyMax   = 32 << 20 // bytes of a body that is parsed
	depthMax  = 256      // nesting of a body, and of a result
	numberMax = 1 << 10  // characters of one number in a body
	resultMax = 32 << 20 // bytes of a result

	// costMax is in CEL's units, each about an operation on a value or on ten characters. A million
	// is some forty milliseconds.
	costMax = 10_000_000

	// stepsMin and stepsPerByte bound jq: instructions of its machine, some ten to a microsecond.
	stepsMin     = 1_000_000
	stepsPerByte = 4
	// timeMax bounds jq where single instructions are dear: each of them copies what it works on.
	timeMax = 2 * time.Second
)

// The languages of a transform.
const (
	CEL = "cel"
	JQ  = "jq"
)

// jsonType is the content type of what is not text.
const jsonType = "application/json"

// Transform makes a body.
type Transform struct {
	program interface {
		run(r *destination.Request) (any, error)
	}
	kind string
}

var _ destination.Transform = (*Transform)(nil)

// NewTransform compiles a transform of a kind, CEL or JQ. Its errors are the operator's and name
// line and column where the language does.
func NewTransform(kind, text string) (*Transform, error) {
	t := &Transform{kind: kind}
	var err error
	switch kind {
	case CEL:
		t.program, err = compileCEL(text, false)
	case JQ:
		t.program, err = compileJQ(text)
	default:
		return nil, fmt.Errorf("transform: kind %q: want %s or %s", kind, CEL, JQ)
	}
	if err != nil {
		return nil, fmt.Errorf("transform (%s): %w", kind, err)
	}
	return t, nil
}

// Apply gives the body. A string or bytes are the body as they are, under the sender's content
// type; any other value is JSON. Errors hold nothing of the event.
func (t *Transform) Apply(r *destination.Request) (body []byte, contentType string, err error) {
	value, err := t.program.run(r)
	if err == nil {
		body, contentType, err = render(value)
	}
	if err != nil {
		return nil, "", fmt.Errorf("transform (%s): %w", t.kind, err)
	}
	return body, contentType, nil
}

// Filter is a condition in CEL.
type Filter struct {
	program *celProgram
}

var _ destination.Filter = (*Filter)(nil)

// NewFilter compiles a condition; one that can give anything but a bool is refused.
func NewFilter(text string) (*Filter, error) {
	program, err := compileCEL(text, true)
	if err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	return &Filter{program: program}, nil
}

// Match tells whether the destination wants the event. Errors hold nothing of the event.
func (f *Filter) Match(r *destination.Request) (bool, error) {
	value, err := f.program.run(r)
	if errors.Is(err, errMissing) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("filter: %w", err)
	}
	return truth(value)
}
