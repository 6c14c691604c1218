package transform

import (
	"cmp"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// decimal is a number of JSON that no integer of 64 bits and no float64 holds. It calculates as the
// float64 next to it, and keeps its text.
type decimal struct {
	types.Double
	text string
}

// number gives the value of CEL for a number of JSON.
func number(n json.Number) ref.Val {
	text := string(n)
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return types.Int(i)
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		return types.Uint(u)
	}
	f, _ := strconv.ParseFloat(text, 64) // out of range is an infinity, which the text is not
	if !math.IsInf(f, 0) && compareDecimals(text, floatText(f)) == 0 {
		return types.Double(f)
	}
	return decimal{Double: types.Double(f), text: text}
}

func floatText(f float64) string { return strconv.FormatFloat(f, 'e', -1, 64) }

// Equal compares all digits.
func (d decimal) Equal(other ref.Val) ref.Val {
	return types.Bool(d.Compare(other) == types.IntZero)
}

// Compare compares all digits.
func (d decimal) Compare(other ref.Val) ref.Val {
	switch o := other.(type) {
	case decimal:
		return types.Int(compareDecimals(d.text, o.text))
	case types.Int:
		return types.Int(compareDecimals(d.text, strconv.FormatInt(int64(o), 10)))
	case types.Uint:
		return types.Int(compareDecimals(d.text, strconv.FormatUint(uint64(o), 10)))
	case types.Double:
		if math.IsNaN(float64(o)) || math.IsInf(float64(o), 0) {
			return d.Double.Compare(o)
		}
		return types.Int(compareDecimals(d.text, floatText(float64(o))))
	}
	return types.MaybeNoSuchOverloadErr(other)
}

// ConvertToType gives the sender's own text as the string.
func (d decimal) ConvertToType(to ref.Type) ref.Val {
	if to == types.StringType {
		return types.String(d.text)
	}
	return d.Double.ConvertToType(to)
}

// compareDecimals orders two numbers of JSON without ever writing their exponents out.
func compareDecimals(a, b string) int {
	signA, digitsA, pointA := readDecimal(a)
	signB, digitsB, pointB := readDecimal(b)
	if c := cmp.Compare(signA, signB); c != 0 || signA == 0 {
		return c
	}
	c := cmp.Compare(pointA, pointB)
	if c == 0 {
		c = strings.Compare(digitsA, digitsB) // without zeros at either end
	}
	return c * signA
}

// readDecimal takes a number apart: its sign (0 for zero), and so that it is 0.digits × 10^point.
// An exponent that no int64 holds counts as the largest: so is everything written with it.
func readDecimal(text string) (sign int, digits string, point int64) {
	sign = 1
	if rest, negative := strings.CutPrefix(text, "-"); negative {
		sign, text = -1, rest
	}
	mantissa := text
	if e := strings.IndexAny(text, "eE"); e >= 0 {
		mantissa = text[:e]
		point, _ = strconv.ParseInt(text[e+1:], 10, 64)
		point = min(max(point, math.MinInt64/2), math.MaxInt64/2)
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	point += int64(len(whole))
	digits = whole + fraction
	trimmed := strings.TrimLeft(digits, "0")
	point -= int64(len(digits) - len(trimmed))
	if digits = strings.TrimRight(trimmed, "0"); digits == "" {
		return 0, "", 0
	}
	return sign, digits, point
}
