package transform

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/itchyny/gojq"
)

// The functions that guard puts into a program. Each gives its input back, or an error that holds
// nothing of it. A program may call them itself, to no harm.
const (
	digitsCheck     = "_digits"
	documentCheck   = "_document"
	factorCheck     = "_factor"
	indexCheck      = "_position"
	needleCheck     = "_needle"
	subtrahendCheck = "_subtrahend"
	tableCheck      = "_table"
	boundedJoin     = "_join"
)

// What the checks let pass.
const (
	indexMax      = 1 << 20 // an index of an array that may have to grow to it
	cellsMax      = 1 << 20 // of a table that is transposed
	bitsMax       = 1 << 14 // of a factor
	needleMax     = 1 << 10 // parts of what is looked for, or characters of its text
	subtrahendMax = 1 << 12 // elements of an array that stands at a minus
)

var guardFunctions = []gojq.CompilerOption{
	check(digitsCheck, func(v any) error {
		if text, ok := v.(string); ok && len(text) > numberMax {
			return guardError(fmt.Sprintf("a number is longer than %d characters", numberMax))
		}
		return nil
	}),
	check(documentCheck, func(v any) error {
		if text, ok := v.(string); ok {
			return measure([]byte(text))
		}
		return nil
	}),
	check(factorCheck, checkFactor),
	check(indexCheck, checkIndex),
	check(needleCheck, func(v any) error {
		if parts(v, needleMax) < 0 {
			return guardError(fmt.Sprintf("more than %d parts or characters are looked for", needleMax))
		}
		return nil
	}),
	check(subtrahendCheck, func(v any) error {
		if list, ok := v.([]any); ok && len(list) > subtrahendMax {
			return guardError(fmt.Sprintf("more than %d elements stand at a minus", subtrahendMax))
		}
		return nil
	}),
	check(tableCheck, checkTable),
	gojq.WithFunction(boundedJoin, 1, 1, func(v any, args []any) any { return join(v, args[0]) }),
}

// guardError is an error whose text holds nothing of the event.
type guardError string

func (e guardError) Error() string { return string(e) }

func check(name string, wrong func(any) error) gojq.CompilerOption {
	return gojq.WithFunction(name, 0, 0, func(v any, _ []any) any {
		if err := wrong(v); err != nil {
			return err
		}
		return v
	})
}

// checkFactor also keeps a string from being repeated as often as a number says.
func checkFactor(v any) error {
	switch v := v.(type) {
	case string:
		return guardError("a string cannot be multiplied in a transform")
	case *big.Int:
		if v.BitLen() > bitsMax {
			return guardError(fmt.Sprintf("a factor is larger than 2^%d", bitsMax))
		}
	}
	return nil
}

// checkIndex takes an index, or a path of them.
func checkIndex(v any) error {
	switch p := v.(type) {
	case int, float64, *big.Int, json.Number:
		if i, _ := gojq.ToInt(p); i > indexMax {
			return guardError(fmt.Sprintf("an index is beyond %d", indexMax))
		}
	case []any:
		for _, step := range p {
			if err := checkIndex(step); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkTable(v any) error {
	rows, _ := v.([]any)
	longest := 0
	for _, row := range rows {
		if cells, ok := row.([]any); ok {
			longest = max(longest, len(cells))
		}
	}
	if len(rows)*longest > cellsMax {
		return guardError(fmt.Sprintf("a table of more than %d cells is transposed", cellsMax))
	}
	return nil
}

// parts takes the parts of a value from room and gives what is left; below zero, counting ended.
func parts(v any, room int) int {
	switch v := v.(type) {
	case string:
		return room - 1 - len(v)
	case []any:
		for _, element := range v {
			if room = parts(element, room); room < 0 {
				break
			}
		}
	case map[string]any:
		for key, element := range v {
			if room = parts(element, room-len(key)); room < 0 {
				break
			}
		}
	}
	return room - 1
}

// join is jq's, with a bound.
func join(v, separator any) any {
	list, ok := v.([]any)
	if object, is := v.(map[string]any); is {
		ok = true
		for _, key := range slices.Sorted(maps.Keys(object)) {
			list = append(list, object[key])
		}
	}
	between, isText := separator.(string)
	switch {
	case !ok:
		return guardError("join: want an array of texts")
	case len(list) == 0:
		return ""
	case !isText && separator != nil:
		return guardError("join: want a text between the elements")
	}
	var joined strings.Builder
	for i, element := range list {
		if i > 0 {
			joined.WriteString(between)
		}
		switch e := element.(type) {
		case nil:
		case string:
			joined.WriteString(e)
		case bool, int, float64, *big.Int, json.Number:
			text, _ := gojq.Marshal(e) // has no error to give
			joined.Write(text)
		default:
			return guardError("join: an element is no text")
		}
		if joined.Len() > resultMax {
			return guardError(errResultSize.Error())
		}
	}
	return joined.String()
}
