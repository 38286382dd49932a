package chattemplate

import (
	"math"
	"math/big"
	"strings"
)

// maxBits bounds integers: a template could otherwise compute one that fills the memory.
const maxBits = 1 << 16

func (r *renderer) arithmetic(op string, a, b value) (value, error) {
	if s, isText := text(a); isText && op == "%" {
		return percentFormat(r, s, b)
	}
	for _, v := range []value{a, b} {
		if u, ok := v.(*undefined); ok {
			return nil, u.err()
		}
	}
	if v, ok, err := r.sequenceArithmetic(op, a, b); ok || err != nil {
		return v, err
	}
	x, okX := number(a)
	y, okY := number(b)
	if !okX || !okY {
		return nil, failf("unsupported operand type(s) for %s: '%s' and '%s'", op, typeName(a), typeName(b))
	}
	_, fx := x.(float64)
	_, fy := y.(float64)
	if fx || fy || op == "/" {
		return floatArithmetic(op, toFloat(x), toFloat(y))
	}
	if i, ok := x.(int64); ok {
		if j, ok := y.(int64); ok {
			if v, ok := smallArithmetic(op, i, j); ok {
				return v, nil
			}
		}
	}
	return bigArithmetic(op, toBig(x), toBig(y))
}

// smallArithmetic handles what can't overflow.
func smallArithmetic(op string, i, j int64) (value, bool) {
	const half = 1 << 31
	small := i > -half && i < half && j > -half && j < half
	if !small {
		return nil, false
	}
	switch op {
	case "+":
		return i + j, true
	case "-":
		return i - j, true
	case "*":
		return i * j, true
	}
	return nil, false
}

func bigArithmetic(op string, x, y *big.Int) (value, error) {
	out := new(big.Int)
	switch op {
	case "+":
		out.Add(x, y)
	case "-":
		out.Sub(x, y)
	case "*":
		out.Mul(x, y)
	case "//", "%":
		if y.Sign() == 0 {
			return nil, failf("integer division or modulo by zero")
		}
		quotient, rest := new(big.Int).QuoRem(x, y, new(big.Int))
		if rest.Sign() != 0 && rest.Sign() != y.Sign() { // Python rounds down
			quotient.Sub(quotient, big.NewInt(1))
			rest.Add(rest, y)
		}
		if op == "//" {
			out = quotient
		} else {
			out = rest
		}
	case "**":
		if y.Sign() < 0 {
			return floatArithmetic(op, toFloat(shrink(x)), toFloat(shrink(y)))
		}
		if !y.IsInt64() || x.BitLen() > 1 && y.Int64() > maxBits/int64(x.BitLen()) {
			return nil, failf("integer too large")
		}
		out.Exp(x, y, nil)
	}
	if out.BitLen() > maxBits {
		return nil, failf("integer too large")
	}
	return shrink(out), nil
}

func floatArithmetic(op string, x, y float64) (value, error) {
	switch op {
	case "+":
		return x + y, nil
	case "-":
		return x - y, nil
	case "*":
		return x * y, nil
	case "/":
		if y == 0 {
			return nil, failf("division by zero")
		}
		return x / y, nil
	case "//", "%":
		if y == 0 {
			return nil, failf("float floor division by zero")
		}
		rest := math.Mod(x, y)
		quotient := (x - rest) / y
		if rest != 0 && (y < 0) != (rest < 0) {
			rest += y
			quotient--
		}
		if op == "%" {
			if rest == 0 {
				return math.Copysign(0, y), nil
			}
			return rest, nil
		}
		if quotient != 0 {
			floor := math.Floor(quotient)
			if quotient-floor > 0.5 {
				floor++
			}
			return floor, nil
		}
		return math.Copysign(0, x/y), nil
	case "**":
		if x == 0 && y < 0 {
			return nil, failf("0.0 cannot be raised to a negative power")
		}
		if x < 0 && y != math.Trunc(y) {
			return nil, failf("complex numbers are not supported")
		}
		return math.Pow(x, y), nil
	}
	return nil, failf("unsupported operator %s", op)
}

// sequenceArithmetic adds and repeats strings, lists and tuples, and formats with %.
func (r *renderer) sequenceArithmetic(op string, a, b value) (value, bool, error) {
	s, isText := text(a)
	switch {
	case op == "+" && isText:
		t, ok := text(b)
		if !ok {
			return nil, true, failf("can only concatenate str (not \"%s\") to str", typeName(b))
		}
		if err := r.grow(len(s) + len(t)); err != nil {
			return nil, true, err
		}
		return addText(a, b, s, t), true, nil
	case op == "*":
		if _, ok := number(a); ok {
			a, b = b, a
			s, isText = text(a)
		}
		n, ok := number(b)
		times, isInt := n.(int64)
		if !ok || !isInt {
			return nil, false, nil
		}
		return r.repeat(a, s, isText, max(0, times))
	case op == "+":
		switch x := a.(type) {
		case *list:
			if y, ok := b.(*list); ok {
				if err := r.grow(len(x.items) + len(y.items)); err != nil {
					return nil, true, err
				}
				return &list{append(append(make([]value, 0, len(x.items)+len(y.items)), x.items...), y.items...)}, true, nil
			}
		case tuple:
			if y, ok := b.(tuple); ok {
				return append(append(make(tuple, 0, len(x)+len(y)), x...), y...), true, nil
			}
		}
	}
	return nil, false, nil
}

// addText escapes what is joined with marked text, as Markup does.
func addText(a, b value, s, t string) value {
	_, markedA := a.(markup)
	_, markedB := b.(markup)
	switch {
	case markedA && markedB:
		return markup(s + t)
	case markedA:
		return markup(s + escapeHTML(t))
	case markedB:
		return markup(escapeHTML(s) + t)
	}
	return s + t
}

func (r *renderer) repeat(a value, s string, isText bool, times int64) (value, bool, error) {
	n := int64(len(s))
	var all []value
	switch x := a.(type) {
	case *list:
		all = x.items
	case tuple:
		all = x
	default:
		if !isText {
			return nil, false, nil
		}
	}
	n = max(n, int64(len(all)))
	if n > 0 && times > maxOutput/n {
		return nil, true, r.grow(maxOutput + 1)
	}
	if err := r.grow(int(n * times)); err != nil {
		return nil, true, err
	}
	if isText {
		return strings.Repeat(s, int(times)), true, nil
	}
	out := make([]value, 0, int64(len(all))*times)
	for range times {
		out = append(out, all...)
	}
	if _, isTuple := a.(tuple); isTuple {
		return tuple(out), true, nil
	}
	return &list{out}, true, nil
}

var htmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;")

func escapeHTML(s string) string { return htmlEscapes.Replace(s) }
