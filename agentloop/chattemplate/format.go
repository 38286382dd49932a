package chattemplate

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// spec says how one value is formatted, for both % and str.format.
type spec struct {
	fill      string
	align     byte // < > ^ = or 0
	sign      byte // + space or 0
	alternate bool
	width     int
	grouping  byte // , _ or 0
	precision int  // -1: none
	kind      byte // 0: by the value
}

const widest = 1 << 20

// percentFormat is Python's s % v.
func percentFormat(r *renderer, s string, v value) (value, error) {
	var b strings.Builder
	args, isTuple := v.(tuple)
	named, isDict := v.(*dict)
	if !isTuple {
		args = tuple{v}
	}
	// What can be indexed counts as a mapping, whose values need not all be used.
	mapping := isDict || isUndefined(v)
	switch v.(type) {
	case *list, span:
		mapping = true
	}
	used := 0
	take := func() (value, error) {
		if used >= len(args) {
			return nil, failf("not enough arguments for format string")
		}
		used++
		return args[used-1], nil
	}
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		i++
		var arg value
		hasName := false
		if i < len(s) && s[i] == '(' {
			end := strings.IndexByte(s[i:], ')')
			if end < 0 || !isDict {
				return nil, failf("format requires a mapping")
			}
			var ok bool
			if arg, ok = named.get(s[i+1 : i+end]); !ok {
				return nil, failf("the format's mapping has no key %s", reprString(s[i+1:i+end]))
			}
			hasName = true
			used = len(args)
			i += end + 1
		}
		f := spec{fill: " ", precision: -1, align: '>'}
		for ; i < len(s) && strings.IndexByte("#0- +", s[i]) >= 0; i++ {
			switch s[i] {
			case '#':
				f.alternate = true
			case '0':
				if f.align != '<' {
					f.fill, f.align = "0", '='
				}
			case '-':
				f.fill, f.align = " ", '<'
			default:
				if f.sign != '+' {
					f.sign = s[i]
				}
			}
		}
		var err error
		if f.width, i, err = count(s, i, take); err != nil {
			return nil, err
		}
		if f.width < 0 {
			f.width, f.align, f.fill = -f.width, '<', " "
		}
		if i < len(s) && s[i] == '.' {
			if f.precision, i, err = count(s, i+1, take); err != nil {
				return nil, err
			}
		}
		for i < len(s) && strings.IndexByte("hlL", s[i]) >= 0 {
			i++
		}
		if i >= len(s) {
			return nil, failf("incomplete format")
		}
		if s[i] == '%' {
			b.WriteByte('%')
			continue
		}
		if !hasName {
			if arg, err = take(); err != nil {
				return nil, err
			}
		}
		out, err := f.percent(s[i], arg)
		if err != nil {
			return nil, err
		}
		b.WriteString(out)
		if err := r.grow(b.Len()); err != nil {
			return nil, err
		}
	}
	if used < len(args) && !mapping && !(isTuple && len(args) == 0) {
		return nil, failf("not all arguments converted during string formatting")
	}
	return b.String(), nil
}

// count reads a number or * at i.
func count(s string, i int, take func() (value, error)) (int, int, error) {
	if i < len(s) && s[i] == '*' {
		v, err := take()
		if err != nil {
			return 0, i, err
		}
		n, ok := v.(int64)
		if !ok || n > widest || n < -widest {
			return 0, i, failf("* wants int")
		}
		return int(n), i + 1, nil
	}
	n := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		n = n*10 + int(s[i]-'0')
		if n > widest {
			return 0, i, failf("width too big")
		}
		i++
	}
	return n, i, nil
}

func (f spec) percent(kind byte, v value) (string, error) {
	switch kind {
	case 's', 'r', 'a':
		s := str(v)
		if kind != 's' {
			s = repr(v)
		}
		if f.align == '=' {
			f.align, f.fill = '>', " "
		}
		return f.pad("", f.cut(s)), nil
	case 'c':
		n, isInt := v.(int64)
		if isInt && n >= 0 && n <= utf8.MaxRune {
			return f.pad("", string(rune(n))), nil
		}
		if s, ok := text(v); ok && utf8.RuneCountInString(s) == 1 {
			return f.pad("", s), nil
		}
		return "", failf("%%c requires int or char")
	}
	n, ok := number(v)
	if !ok {
		if u, isUndefined := v.(*undefined); isUndefined {
			return "", u.err()
		}
		return "", failf("%%%c format: a real number is required, not %s", kind, typeName(v))
	}
	switch kind {
	case 'd', 'i', 'u':
		if x, isFloat := n.(float64); isFloat {
			whole, _ := big.NewFloat(math.Trunc(x)).Int(nil)
			n = shrink(whole)
		}
		f.kind = 'd'
		digits := f.precision
		f.precision = -1
		return f.integer(n, digits)
	case 'x', 'X', 'o':
		if _, isFloat := n.(float64); isFloat {
			return "", failf("%%%c format: an integer is required, not float", kind)
		}
		f.kind = kind
		digits := f.precision
		f.precision = -1
		return f.integer(n, digits)
	case 'e', 'E', 'f', 'F', 'g', 'G':
		f.kind = kind
		return f.float(toFloat(n))
	}
	return "", failf("unsupported format character '%c'", kind)
}

func (f spec) cut(s string) string {
	if f.precision < 0 {
		return s
	}
	runes := []rune(s)
	return string(runes[:min(len(runes), f.precision)])
}

// pad fills up to the width; sign stays in front of zeros.
func (f spec) pad(sign, s string) string {
	n := f.width - utf8.RuneCountInString(sign) - utf8.RuneCountInString(s)
	if n <= 0 {
		return sign + s
	}
	switch f.align {
	case '<':
		return sign + s + strings.Repeat(f.fill, n)
	case '^':
		return strings.Repeat(f.fill, n/2) + sign + s + strings.Repeat(f.fill, n-n/2)
	case '=':
		return sign + strings.Repeat(f.fill, n) + s
	}
	return strings.Repeat(f.fill, n) + sign + s
}

func (f spec) signOf(negative bool) string {
	switch {
	case negative:
		return "-"
	case f.sign != 0:
		return string(f.sign)
	}
	return ""
}

// integer writes at least digits digits.
func (f spec) integer(n value, digits int) (string, error) {
	b := toBig(n)
	base, prefix := 10, ""
	switch f.kind {
	case 'x', 'X':
		base, prefix = 16, "0"+string(f.kind)
	case 'o':
		base, prefix = 8, "0o"
	case 'b':
		base, prefix = 2, "0b"
	case 'c':
		if b.IsInt64() && utf8.ValidRune(rune(b.Int64())) {
			return f.pad("", string(rune(b.Int64()))), nil
		}
		return "", failf("%%c arg not in range")
	}
	s := new(big.Int).Abs(b).Text(base)
	if f.kind == 'X' {
		s = strings.ToUpper(s)
	}
	if len(s) < digits {
		s = strings.Repeat("0", digits-len(s)) + s
	}
	size := 3
	if base != 10 {
		size = 4
	}
	s = group(s, f.grouping, size)
	sign := f.signOf(b.Sign() < 0)
	if f.alternate {
		sign += prefix
	}
	return f.pad(sign, s), nil
}

func group(s string, by byte, size int) string {
	if by == 0 {
		return s
	}
	for i := len(s) - size; i > 0; i -= size {
		s = s[:i] + string(by) + s[i:]
	}
	return s
}

func (f spec) float(x float64) (string, error) {
	precision := f.precision
	if precision < 0 {
		precision = 6
	}
	if precision > 1000 {
		return "", failf("precision too big")
	}
	kind := f.kind
	percent := kind == '%'
	if percent {
		kind, x = 'f', x*100
	}
	abs := math.Abs(x)
	var s string
	switch {
	case math.IsNaN(x):
		s = "nan"
	case math.IsInf(x, 0):
		s = "inf"
	default:
		switch kind {
		case 'f', 'F':
			s = strconv.FormatFloat(abs, 'f', precision, 64)
		case 'e', 'E':
			s = strconv.FormatFloat(abs, 'e', precision, 64)
		default:
			s = general(abs, max(1, precision), f.alternate)
		}
	}
	if kind == 'E' || kind == 'F' || kind == 'G' {
		s = strings.ToUpper(s)
	}
	if whole, rest, ok := strings.Cut(s, "."); ok {
		s = group(whole, f.grouping, 3) + "." + rest
	} else {
		s = group(s, f.grouping, 3)
	}
	if percent {
		s += "%"
	}
	return f.pad(f.signOf(math.Signbit(x) && !math.IsNaN(x)), s), nil
}

// general is %g: precision digits, without zeros at the end.
func general(x float64, precision int, keepZeros bool) string {
	e := strconv.FormatFloat(x, 'e', precision-1, 64)
	_, exponent, _ := strings.Cut(e, "e")
	n, err := strconv.Atoi(exponent)
	if err != nil {
		return e
	}
	trim := func(s string) string {
		if keepZeros || !strings.Contains(s, ".") {
			return s
		}
		return strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if n < -4 || n >= precision {
		mantissa, _, _ := strings.Cut(e, "e")
		return trim(mantissa) + "e" + exponent
	}
	return trim(strconv.FormatFloat(x, 'f', precision-1-n, 64))
}

// braceFormat is str.format.
func braceFormat(s string, args arguments) (value, error) {
	var b strings.Builder
	next := int64(0)
	for i := 0; i < len(s); i++ {
		switch {
		case strings.HasPrefix(s[i:], "{{") || strings.HasPrefix(s[i:], "}}"):
			b.WriteByte(s[i])
			i++
		case s[i] == '}':
			return nil, failf("Single '}' encountered in format string")
		case s[i] == '{':
			end := strings.IndexByte(s[i:], '}')
			if end < 0 {
				return nil, failf("expected '}' before end of string")
			}
			out, err := formatField(s[i+1:i+end], args, &next)
			if err != nil {
				return nil, err
			}
			b.WriteString(out)
			i += end
		default:
			b.WriteByte(s[i])
		}
		if b.Len() > maxOutput {
			return nil, failf("the template makes more than %d bytes", maxOutput)
		}
	}
	return b.String(), nil
}

func formatField(field string, args arguments, next *int64) (string, error) {
	field, format, _ := strings.Cut(field, ":")
	field, conversion, converted := strings.Cut(field, "!")
	if strings.ContainsAny(format, "{") {
		return "", failf("nested fields in str.format are not supported")
	}
	head := field
	if i := strings.IndexAny(field, ".["); i >= 0 {
		head = field[:i]
	}
	rest := field[len(head):]
	var v value
	switch n, isIndex := parseInt(head, 10); {
	case head == "" || isIndex:
		at := *next
		if isIndex && at > 0 || !isIndex && at < 0 {
			return "", failf("cannot switch between manual field specification and automatic field numbering")
		}
		if isIndex {
			*next = -1
			at, _ = n.(int64)
		} else {
			*next++
		}
		if at < 0 || at >= int64(len(args.positional)) {
			return "", failf("Replacement index %d out of range for positional args tuple", at)
		}
		v = args.positional[at]
	default:
		ok := false
		if args.keyword != nil {
			v, ok = args.keyword.get(head)
		}
		if !ok {
			return "", failf("str.format has no argument %s", reprString(head))
		}
	}
	for rest != "" {
		var part string
		if rest[0] == '[' {
			end := strings.IndexByte(rest, ']')
			if end < 0 {
				return "", failf("expected ']' in format string")
			}
			part, rest = rest[1:end], rest[end+1:]
		} else {
			part = rest[1:]
			if i := strings.IndexAny(part, ".["); i >= 0 {
				part = part[:i]
			}
			rest = rest[1+len(part):]
		}
		var err error
		if v, err = follow(v, path(part)); err != nil {
			return "", err
		}
	}
	if converted {
		switch conversion {
		case "r", "a":
			v = repr(v)
		case "s":
			v = str(v)
		default:
			return "", failf("unknown conversion specifier '%s'", conversion)
		}
	}
	return formatValue(v, format)
}

// formatValue is Python's format(v, spec).
func formatValue(v value, format string) (string, error) {
	if format == "" {
		return str(v), nil
	}
	f, err := parseSpec(format)
	if err != nil {
		return "", err
	}
	if s, ok := text(v); ok {
		if f.kind != 0 && f.kind != 's' {
			return "", failf("Unknown format code '%c' for object of type 'str'", f.kind)
		}
		if f.align == 0 {
			f.align = '<'
		}
		return f.pad("", f.cut(s)), nil
	}
	n, ok := number(v)
	if !ok {
		return "", failf("unsupported format string passed to %s.__format__", typeName(v))
	}
	if f.align == 0 {
		f.align = '>'
	}
	x, isFloat := n.(float64)
	switch {
	case strings.IndexByte("eEfFgG%", f.kind) >= 0 && f.kind != 0:
		return f.float(toFloat(n))
	case isFloat && f.kind == 0 && f.precision < 0:
		s := reprFloat(math.Abs(x))
		return f.pad(f.signOf(math.Signbit(x)), s), nil
	case isFloat && f.kind == 0:
		f.kind = 'g'
		return f.float(x)
	case isFloat:
		return "", failf("Unknown format code '%c' for object of type 'float'", f.kind)
	case f.precision >= 0:
		return "", failf("Precision not allowed in integer format specifier")
	}
	return f.integer(n, 0)
}

func parseSpec(s string) (spec, error) {
	f := spec{fill: " ", precision: -1}
	if r, n := utf8.DecodeRuneInString(s); n < len(s) && strings.IndexByte("<>^=", s[n]) >= 0 {
		f.fill, f.align = string(r), s[n]
		s = s[n+1:]
	} else if s != "" && strings.IndexByte("<>^=", s[0]) >= 0 {
		f.align, s = s[0], s[1:]
	}
	take := func(of string) byte {
		if s != "" && strings.IndexByte(of, s[0]) >= 0 {
			c := s[0]
			s = s[1:]
			return c
		}
		return 0
	}
	if c := take("+- "); c != '-' {
		f.sign = c
	}
	f.alternate = take("#") != 0
	if take("0") != 0 && f.align == 0 {
		f.fill, f.align = "0", '='
	}
	digits := func() (int, error) {
		n, i, err := count(s, 0, nil)
		s = s[i:]
		return n, err
	}
	if strings.HasPrefix(s, "*") {
		return f, failf("Invalid format specifier")
	}
	var err error
	if f.width, err = digits(); err != nil {
		return f, err
	}
	f.grouping = take(",_")
	if take(".") != 0 {
		if s == "" || s[0] < '0' || s[0] > '9' {
			return f, failf("Format specifier missing precision")
		}
		if f.precision, err = digits(); err != nil {
			return f, err
		}
	}
	f.kind = take("bcdeEfFgGnosxX%")
	if f.kind == 'n' {
		f.kind = 'd'
	}
	if s != "" {
		return f, failf("Invalid format specifier")
	}
	return f, nil
}
