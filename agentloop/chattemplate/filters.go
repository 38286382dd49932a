package chattemplate

import (
	"math"
	"math/big"
	"net/url"
	"strconv"
	"strings"
	"unicode"
)

// filter is what stands after |.
type filter func(r *renderer, v value, args arguments) (value, error)

func filterNamed(name string) filter {
	switch name {
	case "abs":
		return filterAbs
	case "attr":
		return func(_ *renderer, v value, args arguments) (value, error) {
			p := args.params(1, "name")
			name := p.text(0, "")
			if p.err != nil {
				return nil, p.err
			}
			if got, ok, err := attribute(v, name); ok || err != nil {
				return got, err
			}
			return &undefined{"'" + describeType(v) + "' has no attribute '" + name + "'"}, nil
		}
	case "capitalize":
		return textFilter(capitalize)
	case "lower":
		return textFilter(lower)
	case "upper":
		return textFilter(upper)
	case "title":
		return textFilter(titleWords)
	case "string":
		return func(_ *renderer, v value, args arguments) (value, error) {
			if m, ok := v.(markup); ok {
				return m, args.none()
			}
			return str(v), args.none()
		}
	case "safe":
		return func(_ *renderer, v value, args arguments) (value, error) { return markup(str(v)), args.none() }
	case "e", "escape":
		return func(_ *renderer, v value, args arguments) (value, error) {
			if m, ok := v.(markup); ok {
				return m, args.none()
			}
			return markup(escapeHTML(str(v))), args.none()
		}
	case "forceescape":
		return func(_ *renderer, v value, args arguments) (value, error) {
			return markup(escapeHTML(str(v))), args.none()
		}
	case "trim":
		return filterTrim
	case "replace":
		return filterReplace
	case "center":
		return func(_ *renderer, v value, args arguments) (value, error) {
			p := args.params(0, "width")
			width := p.int(0, 80)
			if p.err != nil {
				return nil, p.err
			}
			return justify(str(v), arguments{positional: []value{width}}, 2)
		}
	case "indent":
		return filterIndent
	case "truncate":
		return filterTruncate
	case "wordcount":
		return func(_ *renderer, v value, args arguments) (value, error) {
			n := 0
			findWordRuns(str(v), func() { n++ })
			return int64(n), args.none()
		}
	case "urlencode":
		return filterURLEncode
	case "format":
		return func(r *renderer, v value, args arguments) (value, error) {
			if args.keyword != nil && len(args.positional) > 0 {
				return nil, failf("can't handle positional and keyword arguments at the same time")
			}
			if args.keyword != nil {
				return percentFormat(r, str(v), args.keyword)
			}
			return percentFormat(r, str(v), tuple(args.positional))
		}
	case "int":
		return filterInt
	case "float":
		return filterFloat
	case "round":
		return filterRound
	case "default", "d":
		return func(_ *renderer, v value, args arguments) (value, error) {
			p := args.params(0, "default_value", "boolean")
			missing := isUndefined(v)
			if p.bool(1, false) {
				ok, err := truth(v)
				if err != nil {
					return nil, err
				}
				missing = missing || !ok
			}
			if missing {
				return p.value(0, ""), p.err
			}
			return v, p.err
		}
	case "tojson":
		return filterToJSON
	}
	return sequenceFilterNamed(name)
}

func textFilter(change func(string) string) filter {
	return func(_ *renderer, v value, args arguments) (value, error) { return change(str(v)), args.none() }
}

// titleWords capitalizes after blanks, hyphens and brackets.
func titleWords(s string) string {
	var b strings.Builder
	start := true
	for _, r := range s {
		if start {
			b.WriteString(upper(string(r)))
		} else {
			b.WriteString(lower(string(r)))
		}
		start = unicode.IsSpace(r) || strings.ContainsRune("-({[<", r)
	}
	return b.String()
}

func filterAbs(_ *renderer, v value, args arguments) (value, error) {
	n, ok := number(v)
	if !ok {
		return nil, failf("bad operand type for abs(): '%s'", typeName(v))
	}
	if f, isFloat := n.(float64); isFloat {
		return math.Abs(f), args.none()
	}
	return shrink(new(big.Int).Abs(toBig(n))), args.none()
}

func filterTrim(_ *renderer, v value, args arguments) (value, error) {
	return stripText(str(v), args, true, true)
}

func filterReplace(_ *renderer, v value, args arguments) (value, error) {
	p := args.params(2, "old", "new", "count")
	n := int64(-1)
	if p.given[2] && p.values[2] != nil {
		n = p.int(2, -1)
	}
	if p.err != nil {
		return nil, p.err
	}
	return replaceText(str(v), str(p.values[0]), str(p.values[1]), n)
}

func filterIndent(_ *renderer, v value, args arguments) (value, error) {
	p := args.params(0, "width", "first", "blank")
	first, blank := p.bool(1, false), p.bool(2, false)
	indention, isText := text(p.value(0, int64(4)))
	if !isText {
		width := p.int(0, 4)
		pad, err := padding(width, "", " ")
		if err != nil {
			return nil, err
		}
		indention = pad
	}
	s, ok := text(v)
	if p.err != nil || !ok {
		return nil, firstError(p.err, failf("indent takes text, not %s", typeName(v)))
	}
	lines := splitLines(s+"\n", false).(*list).items
	var b strings.Builder
	for i, line := range lines {
		if i > 0 {
			b.WriteByte('\n')
		}
		if i == 0 && first || i > 0 && (blank || line != "") {
			b.WriteString(indention)
		}
		b.WriteString(line.(string))
	}
	return b.String(), nil
}

func filterTruncate(_ *renderer, v value, args arguments) (value, error) {
	p := args.params(0, "length", "killwords", "end", "leeway")
	longest, kill, end, leeway := p.int(0, 255), p.bool(1, false), p.text(2, "..."), int64(5)
	if p.given[3] && p.values[3] != nil {
		leeway = p.int(3, 5)
	}
	if p.err != nil {
		return nil, p.err
	}
	s, ok := text(v)
	if !ok {
		n, at := length(v)
		d, isDict := v.(*dict)
		if isDict {
			n = len(d.keys)
		}
		if at == nil && !isUndefined(v) && !isDict || int64(n) > longest+leeway {
			return nil, failf("object of type '%s' can't be truncated", typeName(v))
		}
		return v, nil
	}
	runes, tail := []rune(s), []rune(end)
	if longest < int64(len(tail)) || leeway < 0 {
		return nil, failf("expected length >= %d, got %d", len(tail), longest)
	}
	if int64(len(runes)) <= longest+leeway {
		return str(v), nil
	}
	cut := string(runes[:longest-int64(len(tail))])
	if !kill {
		if i := strings.LastIndexByte(cut, ' '); i >= 0 {
			cut = cut[:i]
		}
	}
	return cut + end, nil
}

func findWordRuns(s string, found func()) {
	in := false
	for _, r := range s {
		word := r == '_' || unicode.IsLetter(r) || unicode.Is(unicode.N, r)
		if word && !in {
			found()
		}
		in = word
	}
}

func filterURLEncode(_ *renderer, v value, args arguments) (value, error) {
	quote := func(s, keep string) string {
		var b strings.Builder
		for _, c := range []byte(s) {
			if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_.-~"+keep, c) >= 0 {
				b.WriteByte(c)
			} else {
				b.WriteString("%" + strings.ToUpper(strconv.FormatInt(int64(c)+256, 16)[1:]))
			}
		}
		return b.String()
	}
	if s, ok := text(v); ok {
		return quote(s, "/"), args.none()
	}
	var all []value
	var err error
	if d, ok := v.(*dict); ok {
		all = pairs(d)
	} else if isUndefined(v) {
		return "", args.none()
	} else if all, err = items(v); err != nil {
		return quote(str(v), "/"), args.none()
	}
	parts := make([]string, len(all))
	for i, entry := range all {
		two, err := items(entry)
		if err != nil || len(two) != 2 {
			return nil, failf("urlencode takes pairs")
		}
		parts[i] = url.QueryEscape(str(two[0])) + "=" + url.QueryEscape(str(two[1]))
	}
	return strings.Join(parts, "&"), args.none()
}

func filterInt(_ *renderer, v value, args arguments) (value, error) {
	p := args.params(0, "default", "base")
	otherwise, base := p.value(0, int64(0)), p.int(1, 10)
	if p.err != nil {
		return nil, p.err
	}
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	if s, ok := text(v); ok {
		if n, ok := parseInt(s, int(base)); ok {
			return n, nil
		}
		f, ok := parseFloat(s)
		if !ok || math.IsNaN(f) {
			return otherwise, nil
		}
		v = f
	}
	n, ok := number(v)
	if !ok {
		return otherwise, nil
	}
	if f, isFloat := n.(float64); isFloat {
		if math.IsNaN(f) {
			return otherwise, nil
		}
		if math.IsInf(f, 0) {
			return nil, failf("cannot convert float infinity to integer")
		}
		whole, _ := big.NewFloat(math.Trunc(f)).Int(nil)
		return shrink(whole), nil
	}
	return n, nil
}

// parseInt reads what Python's int(text, base) takes.
func parseInt(s string, base int) (value, bool) {
	s = strings.TrimFunc(s, isPythonSpace)
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 || digits == "" || strings.HasPrefix(digits, "_") || strings.HasSuffix(digits, "_") || strings.Contains(digits, "__") {
		return nil, false
	}
	if len(digits) > 2 && digits[0] == '0' {
		prefixes := map[byte]int{'x': 16, 'o': 8, 'b': 2}
		if b := prefixes[digits[1]|0x20]; b != 0 && (b == base || base == 0) {
			digits, base = strings.TrimPrefix(digits[2:], "_"), b
		}
	}
	digits = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Nd, r) && r > 127 { // digits of any script count
			zero := r
			for unicode.Is(unicode.Nd, zero-1) && r-zero < 9 {
				zero--
			}
			return '0' + (r-zero)%10
		}
		return r
	}, strings.ReplaceAll(digits, "_", ""))
	if base == 0 || base < 2 || base > 36 {
		base = 10
	}
	n, ok := new(big.Int).SetString(digits, base)
	if !ok {
		return nil, false
	}
	if s[0] == '-' {
		n.Neg(n)
	}
	return shrink(n), true
}

func parseFloat(s string) (float64, bool) {
	s = strings.TrimFunc(s, isPythonSpace)
	if strings.ContainsAny(s, "xXpP") || strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

func filterFloat(_ *renderer, v value, args arguments) (value, error) {
	p := args.params(0, "default")
	otherwise := p.value(0, 0.0)
	if u, ok := v.(*undefined); ok {
		return nil, u.err()
	}
	if s, ok := text(v); ok {
		if f, ok := parseFloat(s); ok {
			return f, p.err
		}
		return otherwise, p.err
	}
	if n, ok := number(v); ok {
		return toFloat(n), p.err
	}
	return otherwise, p.err
}

func filterRound(_ *renderer, v value, args arguments) (value, error) {
	p := args.params(0, "precision", "method")
	precision, how := p.int(0, 0), p.text(1, "common")
	n, ok := number(v)
	if p.err != nil || !ok {
		return nil, firstError(p.err, failf("type %s doesn't define __round__ method", typeName(v)))
	}
	if how != "common" && how != "ceil" && how != "floor" {
		return nil, failf("method must be common, ceil or floor")
	}
	if precision > 400 || precision < -400 {
		return nil, failf("precision %d is out of range", precision)
	}
	f, isFloat := n.(float64)
	if how == "common" {
		if isFloat {
			return roundHalfEven(f, int(precision)), nil
		}
		if precision >= 0 {
			return n, nil
		}
		return roundInteger(toBig(n), int(-precision)), nil
	}
	if !isFloat {
		f = toFloat(n)
	}
	scale := math.Pow(10, float64(precision))
	if how == "ceil" {
		return math.Ceil(f*scale) / scale, nil
	}
	return math.Floor(f*scale) / scale, nil
}

// roundHalfEven rounds the exact value of the float, as Python does.
func roundHalfEven(f float64, precision int) float64 {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return f
	}
	if precision < 0 {
		scale := math.Pow(10, float64(-precision))
		return math.RoundToEven(f/scale) * scale
	}
	out, err := strconv.ParseFloat(strconv.FormatFloat(f, 'f', precision, 64), 64)
	if err != nil {
		return f
	}
	return out
}

func roundInteger(n *big.Int, zeros int) value {
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(zeros)), nil)
	quotient, rest := new(big.Int).DivMod(n, unit, new(big.Int))
	switch twice := rest.Lsh(rest, 1).Cmp(unit); {
	case twice > 0, twice == 0 && quotient.Bit(0) == 1:
		quotient.Add(quotient, big.NewInt(1))
	}
	return shrink(quotient.Mul(quotient, unit))
}

// filterToJSON is the one transformers puts in place of Jinja2's: json.dumps that
// keeps characters as they are and escapes no HTML.
func filterToJSON(r *renderer, v value, args arguments) (value, error) {
	p := args.params(0, "ensure_ascii", "indent", "separators", "sort_keys")
	style := &jsonStyle{ascii: p.bool(0, false), item: ", ", pair: ": ", sortKeys: p.bool(3, false)}
	if p.given[1] && p.values[1] != nil {
		style.multiline, style.item = true, ","
		if s, ok := text(p.values[1]); ok {
			style.indent = s
		} else {
			style.indent = strings.Repeat(" ", int(max(0, min(64, p.int(1, 0)))))
		}
	}
	if p.given[2] && p.values[2] != nil {
		two, err := items(p.values[2])
		if err != nil || len(two) != 2 {
			return nil, failf("separators must be a pair")
		}
		style.item, style.pair = str(two[0]), str(two[1])
	}
	if p.err != nil {
		return nil, p.err
	}
	out, err := appendJSON(nil, v, style, 0)
	if err != nil {
		return nil, err
	}
	return string(out), r.grow(len(out))
}
