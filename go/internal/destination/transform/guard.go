package transform

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/itchyny/gojq"
)

// Some single instructions of jq take as much memory or time as the event says, which no count of
// steps would stop: "x" * .count, .[.index] = 1, .a - .b, test(.pattern). guard puts a check
// before each of them where it can, wants a literal where it cannot, and refuses what would make
// the result depend on more than the event.

// refused are functions that read this host or its clock, or end more than the program; and
// fromstream, which makes arrays of any length out of what its argument gives.
var refused = []string{
	"$ENV", "debug", "env", "fromstream", "get_search_list", "halt", "halt_error", "input",
	"input_filename", "input_line_number", "inputs", "localtime", "modulemeta", "now", "stderr",
	"strflocaltime",
}

// Checks by what they stand before: the input of a function, its first argument, both sides of an
// operator. An update ("*=") is the operator too.
var (
	inputChecks = map[string]string{
		"fromjson": documentCheck, "inside": needleCheck, "tonumber": digitsCheck,
		"transpose": tableCheck,
	}
	argumentChecks = map[string]string{
		"contains": needleCheck, "index": needleCheck, "indices": needleCheck,
		"rindex": needleCheck, "setpath": indexCheck,
	}
	operatorChecks = map[gojq.Operator]string{
		gojq.OpMul: factorCheck, gojq.OpSub: subtrahendCheck,
	}
	updates = map[gojq.Operator]gojq.Operator{
		gojq.OpUpdateMul: gojq.OpMul, gojq.OpUpdateSub: gojq.OpSub,
	}
	// literalPatterns take a regular expression, which is as dear as it likes.
	literalPatterns = []string{
		"capture", "gsub", "match", "scan", "splits", "sub", "test",
	}
)

// guard changes a parsed program in place.
func guard(query *gojq.Query) error { return guardValue(reflect.ValueOf(query)) }

// guardValue walks all that a program is made of; the library keeps it in plain structs.
func guardValue(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		if err := guardValue(v.Elem()); err != nil {
			return err
		}
		return guardNode(v.Interface()) // after what is below it, so that no check is checked again
	case reflect.Struct:
		for i := range v.NumField() {
			if err := guardValue(v.Field(i)); err != nil {
				return err
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := guardValue(v.Index(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

func guardNode(node any) error {
	switch n := node.(type) {
	case *gojq.Import:
		return errors.New("modules cannot be imported")
	case *gojq.FuncDef:
		if guarded(n.Name) {
			return fmt.Errorf("%s cannot be defined: the name has a meaning already", n.Name)
		}
	case *gojq.Func:
		return guardCall(n)
	case *gojq.Index:
		if n.Start != nil && !n.IsSlice && !isLiteral(n.Start) {
			n.Start = piped(n.Start, indexCheck)
		}
	case *gojq.Term:
		if n.Type != gojq.TermTypeFunc {
			break
		}
		if check, ok := inputChecks[n.Func.Name]; ok {
			call := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: n.Func}}
			n.Type, n.Func = gojq.TermTypeQuery, nil
			n.Query = &gojq.Query{Left: called(check), Op: gojq.OpPipe, Right: call}
		}
	case *gojq.Query:
		guardOperator(n)
	}
	return nil
}

// guarded tells whether a function of that name has its meaning from here.
func guarded(name string) bool {
	_, input := inputChecks[name]
	_, argument := argumentChecks[name]
	return input || argument || name == "join" || name == "split" || strings.HasPrefix(name, "_") ||
		slices.Contains(refused, name) || slices.Contains(literalPatterns, name)
}

func guardCall(f *gojq.Func) error {
	if slices.Contains(refused, f.Name) {
		return fmt.Errorf("%s is not available in a transform", f.Name)
	}
	if len(f.Args) == 0 {
		return nil
	}
	if check, ok := argumentChecks[f.Name]; ok {
		f.Args[0] = piped(f.Args[0], check)
	}
	pattern := slices.Contains(literalPatterns, f.Name) || (f.Name == "split" && len(f.Args) == 2)
	if pattern && !isLiteral(f.Args[0]) {
		return fmt.Errorf("%s takes a pattern that is a literal, not what an event holds", f.Name)
	}
	if f.Name == "join" && len(f.Args) == 1 {
		f.Name = boundedJoin
	}
	return nil
}

// guardOperator checks both sides of an operator, and makes `r as $x | l |= . * $x` of `l *= r`,
// which is what that means.
func guardOperator(q *gojq.Query) {
	if check, ok := operatorChecks[q.Op]; ok {
		q.Left, q.Right = piped(q.Left, check), piped(q.Right, check)
	}
	operator, ok := updates[q.Op]
	if !ok {
		return
	}
	const variable = "$_right"
	check := operatorChecks[operator]
	itself := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeIdentity}}
	update := &gojq.Query{Left: piped(itself, check), Op: operator, Right: called(variable)}
	*q = gojq.Query{
		Left: piped(q.Right, check), Patterns: []*gojq.Pattern{{Name: variable}}, Op: gojq.OpPipe,
		Right: &gojq.Query{Left: q.Left, Op: gojq.OpModify, Right: update},
	}
}

// isLiteral tells whether a part of a program is a number or a text as it stands.
func isLiteral(q *gojq.Query) bool {
	t := q.Term
	return t != nil && len(t.SuffixList) == 0 && (t.Type == gojq.TermTypeNumber ||
		t.Type == gojq.TermTypeString && t.Str != nil && t.Str.Queries == nil)
}

// piped is `q | function`.
func piped(q *gojq.Query, function string) *gojq.Query {
	return &gojq.Query{Left: q, Op: gojq.OpPipe, Right: called(function)}
}

func called(function string) *gojq.Query {
	return &gojq.Query{Term: &gojq.Term{
		Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: function},
	}}
}
