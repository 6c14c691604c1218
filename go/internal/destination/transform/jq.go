package transform

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/itchyny/gojq"

	"sluice/go/internal/destination"
)

// jqProgram is one compiled program, with the variables that it names.
type jqProgram struct {
	code      *gojq.Code
	variables []func(*destination.Request) any
}

// jqVariables are what a program may name beside its input.
var jqVariables = []struct {
	name  string
	value func(*destination.Request) any
}{
	{"$body", func(r *destination.Request) any { return valid(string(r.Body)) }},
	{"$headers", func(r *destination.Request) any {
		object := make(map[string]any, len(r.Headers))
		for name, values := range headerLists(r.Headers) {
			list := make([]any, len(values))
			for i, value := range values {
				list[i] = value
			}
			object[name] = list
		}
		return object
	}},
	{"$source", func(r *destination.Request) any { return r.Source }},
	{"$id", func(r *destination.Request) any { return r.EventID.String() }},
	{"$method", func(r *destination.Request) any { return valid(r.Method) }},
	{"$target", func(r *destination.Request) any { return valid(r.Target) }},
	{"$received", func(r *destination.Request) any {
		return received(r).Format(time.RFC3339Nano)
	}},
	{"$attempt", func(r *destination.Request) any { return r.Attempt }},
}

func compileJQ(text string) (*jqProgram, error) {
	query, err := gojq.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", place(text, err), err)
	}
	if err := guard(query); err != nil {
		return nil, err
	}
	p := &jqProgram{}
	var names []string
	for _, v := range jqVariables {
		// Named in a string or a comment counts too: then it is made for nothing.
		if strings.Contains(text, v.name) {
			names = append(names, v.name)
			p.variables = append(p.variables, v.value)
		}
	}
	options := append([]gojq.CompilerOption{gojq.WithVariables(names)}, guardFunctions...)
	if p.code, err = gojq.Compile(query, options...); err != nil {
		return nil, err
	}
	return p, nil
}

// place names where a program could not be read on.
func place(text string, err error) string {
	var fault *gojq.ParseError
	if !errors.As(err, &fault) {
		return "line 1, column 1"
	}
	before := text[:min(max(fault.Offset-len(fault.Token), 0), len(text))]
	line := strings.Count(before, "\n") + 1
	column := len([]rune(before[strings.LastIndexByte(before, '\n')+1:])) + 1
	return fmt.Sprintf("line %d, column %d", line, column)
}

func (p *jqProgram) run(r *destination.Request) (any, error) {
	input, err := parse(r.Body)
	if err != nil {
		return nil, err
	}
	values := make([]any, len(p.variables))
	for i, variable := range p.variables {
		values[i] = variable(r)
	}
	budget := &budget{
		Context: context.Background(), steps: stepsMin + stepsPerByte*len(r.Body),
		deadline: time.Now().Add(timeMax),
	}
	results := p.code.RunWithContext(budget, input, values...)
	value, some := results.Next()
	if !some {
		return nil, errors.New("the program gave no value, want one")
	}
	if err, failed := value.(error); failed {
		return nil, jqBlame(err)
	}
	if _, more := results.Next(); more {
		return nil, errors.New("the program gave more than one value, want one")
	}
	return value, nil
}

// budget is a context that ends after a number of steps: the machine asks it before each of its
// instructions. It belongs to one evaluation.
type budget struct {
	context.Context
	steps    int
	deadline time.Time
	spent    error
}

var (
	errSteps = errors.New("the program took too many steps with this event")
	errTime  = fmt.Errorf("the program took more than %v with this event", timeMax)
)

// ended is the channel of every budget that is spent.
var ended = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// clockSteps is how many steps pass between two looks at the clock.
const clockSteps = 256

// Done counts a step.
func (b *budget) Done() <-chan struct{} {
	b.steps--
	switch {
	case b.steps < 0:
		b.spent = errSteps
	case b.steps%clockSteps == 0 && time.Now().After(b.deadline):
		b.spent = errTime
	}
	if b.spent != nil {
		return ended
	}
	return nil
}

// Err says which bound it was.
func (b *budget) Err() error { return b.spent }

// jqMessages are what an error of the machine may begin with. What follows is the event's, but for
// the name of a type.
var jqMessages = []string{
	"array index should not be negative", "array index too large", "cannot add", "cannot divide",
	"cannot iterate over", "cannot modulo", "cannot multiply", "cannot negate", "cannot subtract",
	"expected a number for indexing", "expected a string for object key", "expected an array",
	"expected an object", "format not defined", "invalid path",
}

// jqTypes are what jq calls its types.
var jqTypes = []string{"null", "boolean", "number", "string", "array", "object"}

// jqBlame says what stopped a program, without the values that it met.
func jqBlame(err error) error {
	var own guardError
	var thrown gojq.ValueError
	switch {
	case errors.Is(err, errSteps), errors.Is(err, errTime), errors.As(err, &own):
		return err
	case errors.As(err, &thrown):
		return errors.New("the program called error")
	}
	text := err.Error()
	for _, message := range jqMessages {
		rest, ok := strings.CutPrefix(text, message)
		if !ok {
			continue
		}
		if _, got, ok := strings.Cut(rest, ": "); ok {
			for _, kind := range jqTypes {
				if strings.HasPrefix(got, kind) {
					return fmt.Errorf("%s: got %s", message, kind)
				}
			}
		}
		return errors.New(message)
	}
	// Errors of functions begin with the function's name.
	end := strings.IndexFunc(text, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_'
	})
	if end > 0 && (text[end] == '(' || strings.HasPrefix(text[end:], " cannot be applied to")) {
		return fmt.Errorf("%s cannot be applied to what it got", text[:end])
	}
	return errors.New("the program failed")
}
