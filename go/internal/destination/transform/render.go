package transform

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
	"github.com/itchyny/gojq"
)

var errResultSize = fmt.Errorf("the result is longer than %d bytes", resultMax)

// render gives the body that stands for the value of an expression, and its content type.
func render(value any) ([]byte, string, error) {
	var text []byte
	switch v := value.(type) {
	case string:
		text = []byte(v)
	case types.String:
		text = []byte(v)
	case types.Bytes:
		text = slices.Clone([]byte(v)) // it may be the request's body
	default:
		var r renderer
		if err := r.value(value, 0); err != nil {
			return nil, "", err
		}
		return r.out, jsonType, nil
	}
	if len(text) > resultMax {
		return nil, "", errResultSize
	}
	return text, "", nil
}

// renderer writes JSON: objects in the order of their keys, nothing escaped that need not be. It
// knows the values of both languages.
type renderer struct {
	out []byte
}

func (r *renderer) value(value any, depth int) error {
	if depth > depthMax {
		return fmt.Errorf("the result nests deeper than %d levels", depthMax)
	}
	if len(r.out) > resultMax {
		return errResultSize
	}
	switch v := value.(type) {
	case nil, types.Null:
		r.out = append(r.out, "null"...)
	case bool:
		r.out = strconv.AppendBool(r.out, v)
	case types.Bool:
		r.out = strconv.AppendBool(r.out, bool(v))
	case int:
		r.out = strconv.AppendInt(r.out, int64(v), 10)
	case types.Int:
		r.out = strconv.AppendInt(r.out, int64(v), 10)
	case types.Uint:
		r.out = strconv.AppendUint(r.out, uint64(v), 10)
	case *big.Int:
		r.out = v.Append(r.out, 10)
	case float64:
		// As jq does it.
		if math.IsNaN(v) {
			return r.value(nil, depth)
		}
		r.float(min(max(v, -math.MaxFloat64), math.MaxFloat64))
	case types.Double:
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			return errors.New("the result holds a number that JSON cannot (NaN or infinite)")
		}
		r.float(float64(v))
	case decimal:
		r.out = append(r.out, v.text...)
	case json.Number:
		if !json.Valid([]byte(v)) { // made by the program
			f, _ := gojq.ToFloat64(v)
			return r.value(f, depth)
		}
		r.out = append(r.out, v...)
	case string:
		return r.text(v)
	case types.String:
		return r.text(string(v))
	case types.Bytes:
		return r.text(base64.StdEncoding.EncodeToString(v))
	case types.Timestamp:
		return r.text(v.UTC().Format(time.RFC3339Nano))
	case types.Duration:
		return r.text(string(v.ConvertToType(types.StringType).(types.String)))
	case *types.Optional:
		if !v.HasValue() {
			return r.value(nil, depth)
		}
		return r.value(v.GetValue(), depth)
	case []any:
		return r.list(len(v), func(i int) any { return v[i] }, depth)
	case map[string]any:
		return r.object(slices.Sorted(maps.Keys(v)), func(k string) any { return v[k] }, depth)
	case traits.Lister:
		size := int(v.Size().(types.Int))
		return r.list(size, func(i int) any { return v.Get(types.Int(i)) }, depth)
	case traits.Mapper:
		return r.mapper(v, depth)
	case ref.Val:
		return fmt.Errorf("the result holds a %s, which JSON does not have", v.Type().TypeName())
	default:
		return fmt.Errorf("the result holds a %T, which JSON does not have", value)
	}
	return nil
}

func (r *renderer) list(size int, element func(int) any, depth int) error {
	r.out = append(r.out, '[')
	for i := range size {
		if i > 0 {
			r.out = append(r.out, ',')
		}
		if err := r.value(element(i), depth+1); err != nil {
			return err
		}
	}
	r.out = append(r.out, ']')
	return nil
}

func (r *renderer) object(keys []string, element func(string) any, depth int) error {
	r.out = append(r.out, '{')
	for i, key := range keys {
		if i > 0 {
			r.out = append(r.out, ',')
		}
		if err := r.text(key); err != nil {
			return err
		}
		r.out = append(r.out, ':')
		if err := r.value(element(key), depth+1); err != nil {
			return err
		}
	}
	r.out = append(r.out, '}')
	return nil
}

// mapper writes a map of CEL, whose keys may be numbers or bools as well.
func (r *renderer) mapper(m traits.Mapper, depth int) error {
	values := make(map[string]ref.Val, int(m.Size().(types.Int)))
	for it := m.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		text, ok := key.ConvertToType(types.StringType).(types.String)
		if !ok {
			return fmt.Errorf("the result holds a map with keys of type %s", key.Type().TypeName())
		}
		if _, twice := values[string(text)]; twice {
			return errors.New("the result holds a map with two keys that JSON does not tell apart")
		}
		values[string(text)] = m.Get(key)
	}
	keys := slices.Sorted(maps.Keys(values))
	return r.object(keys, func(k string) any { return values[k] }, depth)
}

func (r *renderer) float(f float64) {
	format := byte('f')
	if x := math.Abs(f); x != 0 && (x < 1e-6 || x >= 1e21) {
		format = 'e'
	}
	r.out = strconv.AppendFloat(r.out, f, format, -1, 64)
}

const hex = "0123456789abcdef"

func (r *renderer) text(s string) error {
	if len(r.out)+len(s) > resultMax {
		return errResultSize
	}
	r.out = append(r.out, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			char, size := utf8.DecodeRuneInString(s[i:])
			r.out = utf8.AppendRune(r.out, char) // U+FFFD for what is not UTF-8
			i += size
			continue
		}
		switch {
		case c == '"' || c == '\\':
			r.out = append(r.out, '\\', c)
		case c >= ' ':
			r.out = append(r.out, c)
		case c == '\n':
			r.out = append(r.out, `\n`...)
		case c == '\r':
			r.out = append(r.out, `\r`...)
		case c == '\t':
			r.out = append(r.out, `\t`...)
		default:
			r.out = append(r.out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
	}
	r.out = append(r.out, '"')
	return nil
}
