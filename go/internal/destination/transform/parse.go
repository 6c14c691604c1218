package transform

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// parse reads a body: nil where it is no JSON, an error where it is beyond a bound. Numbers stay
// text.
func parse(body []byte) (any, error) {
	body = bytes.TrimLeft(body, " \t\r\n")
	if len(body) == 0 || !opensJSON[body[0]] {
		return nil, nil
	}
	if err := measure(body); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var value any
	if decoder.Decode(&value) != nil {
		return nil, nil
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, nil // something follows the value
	}
	return value, nil
}

// opensJSON holds the bytes that a JSON value may begin with.
var opensJSON = func() (table [256]bool) {
	for _, c := range []byte(`{["-0123456789tfn`) {
		table[c] = true
	}
	return table
}()

// measure checks the bounds before anything is built. It need not know whether the body is JSON:
// what is not JSON and beyond a bound all the same is refused too.
func measure(body []byte) error {
	if len(body) > bodyMax {
		return guardError(fmt.Sprintf("a body of %d bytes is not parsed, at most %d", len(body), bodyMax))
	}
	depth, digits := 0, 0
	for i := 0; i < len(body); i++ {
		switch c := body[i]; c {
		case '"':
			for i++; i < len(body) && body[i] != '"'; i++ {
				if body[i] == '\\' {
					i++
				}
			}
			digits = 0
		case '{', '[':
			if depth++; depth > depthMax {
				return guardError(fmt.Sprintf("the JSON nests deeper than %d levels", depthMax))
			}
			digits = 0
		case '}', ']':
			depth--
			digits = 0
		case '-', '+', '.', 'e', 'E', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
			if digits++; digits > numberMax {
				return guardError(fmt.Sprintf("a number is longer than %d characters", numberMax))
			}
		default:
			digits = 0
		}
	}
	return nil
}
