package number

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// JSON measures the number that a JSON pointer (RFC 6901) leads to in the document at the URL; the
// empty pointer is the document itself. A string that holds a number counts as one; null says
// nothing.
func JSON(o Options, pointer string) (*Source, error) {
	path, err := parsePointer(pointer)
	if err != nil {
		return nil, err
	}
	s, err := newSource(o)
	if err != nil {
		return nil, err
	}
	s.parse = func(status int, body []byte) (float64, bool, error) {
		if status < 200 || status > 299 {
			return 0, false, fmt.Errorf("status %d", status)
		}
		value, ok, err := path.number(body)
		if err != nil {
			err = fmt.Errorf("the pointer %s: %w", quoted(pointer), err)
		}
		return value, ok, err
	}
	return s, nil
}

// path is a parsed pointer: the keys to follow.
type path []string

func parsePointer(text string) (path, error) {
	if text == "" {
		return nil, nil
	}
	if text[0] != '/' {
		return nil, fmt.Errorf("JSON pointer %s: write a / at its begin", quoted(text))
	}
	var p path
	for key := range strings.SplitSeq(text[1:], "/") {
		plain := strings.NewReplacer("~0", "", "~1", "").Replace(key)
		if strings.Contains(plain, "~") {
			return nil, fmt.Errorf("JSON pointer %s: write ~0 for ~ and ~1 for /", quoted(text))
		}
		p = append(p, strings.NewReplacer("~0", "~", "~1", "/").Replace(key))
	}
	return p, nil
}

// number follows the path. false: there is a null.
func (p path) number(document []byte) (float64, bool, error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return 0, false, fmt.Errorf("the document is no JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return 0, false, errors.New("the document is no JSON: there is more behind it")
	}
	for _, key := range p {
		switch node := value.(type) {
		case map[string]any:
			next, ok := node[key]
			if !ok {
				return 0, false, fmt.Errorf("there is no %s", quoted(key))
			}
			value = next
		case []any:
			index, err := strconv.ParseUint(key, 10, 31)
			if err != nil || key != strconv.FormatUint(index, 10) || index >= uint64(len(node)) {
				return 0, false, fmt.Errorf("%s is no position in an array of %d", quoted(key),
					len(node))
			}
			value = node[index]
		default:
			return 0, false, fmt.Errorf("what should hold %s holds nothing", quoted(key))
		}
	}
	switch leaf := value.(type) {
	case nil:
		return 0, false, nil
	case json.Number:
		return parseNumber(string(leaf))
	case string:
		return parseNumber(strings.TrimSpace(leaf))
	}
	return 0, false, errors.New("it leads to no number")
}

// parseNumber takes what ParseFloat takes, NaN and Inf among it, which say nothing.
func parseNumber(text string) (float64, bool, error) {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(value, 0) {
		return 0, false, fmt.Errorf("%s is no number", quoted(text))
	}
	return value, true, nil
}
