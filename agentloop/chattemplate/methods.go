package chattemplate

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// attribute finds an attribute or method of a value. ok is false where there is none.
func attribute(of value, name string) (v value, ok bool, err error) {
	if u, isUndefined := of.(*undefined); isUndefined {
		return nil, false, u.err()
	}
	if strings.HasPrefix(name, "__") {
		return &undefined{"access to attribute '" + name + "' of '" + typeName(of) + "' object is unsafe."}, true, nil
	}
	switch of := of.(type) {
	case string:
		v, ok = textMethod(of, name)
	case markup:
		v, ok = textMethod(string(of), name)
	case *dict:
		return dictMethod(of, name)
	case *list:
		return listMethod(of.items, name, true)
	case tuple:
		return listMethod(of, name, false)
	case *loop:
		v, ok = of.attribute(name)
	case *namespace:
		v, ok = of.attrs.get(name)
	case *function:
		v, ok = of.attrs[name]
	case span:
		switch name {
		case "index", "count":
			all, err := items(of)
			if err != nil {
				return nil, false, err
			}
			return listMethod(all, name, false)
		case "start":
			return of.start, true, nil
		case "stop":
			return of.stop, true, nil
		case "step":
			return of.step, true, nil
		}
	case float64:
		if name == "is_integer" {
			v, ok = method(name, func(a arguments) (value, error) { return of == float64(int64(of)), a.none() }), true
		}
	}
	return v, ok, nil
}

func method(name string, call func(arguments) (value, error)) *function {
	return &function{name: name, call: func(_ *renderer, a arguments) (value, error) {
		v, err := call(a)
		if err != nil {
			return nil, within(name+"()", err)
		}
		return v, nil
	}}
}

func refuseMutation(kind, name string) (value, bool, error) {
	return &undefined{"access to attribute '" + name + "' of '" + kind + "' object is unsafe."}, true, nil
}

func dictMethod(d *dict, name string) (value, bool, error) {
	var call func(arguments) (value, error)
	switch name {
	case "get":
		call = func(a arguments) (value, error) {
			p := a.params(1, "key", "default")
			if p.err != nil {
				return nil, p.err
			}
			if _, err := keyOf(p.values[0]); err != nil {
				return nil, err
			}
			if v, ok := d.get(p.values[0]); ok {
				return v, nil
			}
			return p.value(1, nil), nil
		}
	case "items":
		call = func(a arguments) (value, error) { return &list{pairs(d)}, a.none() }
	case "keys":
		call = func(a arguments) (value, error) { return &list{d.keys}, a.none() }
	case "values":
		call = func(a arguments) (value, error) { return &list{d.values}, a.none() }
	case "copy":
		call = func(a arguments) (value, error) { return d, a.none() }
	case "clear", "pop", "popitem", "setdefault", "update":
		return refuseMutation("dict", name)
	case "fromkeys":
		return nil, false, failf("dict.fromkeys is not available in chat templates")
	default:
		return nil, false, nil
	}
	return method(name, call), true, nil
}

func pairs(d *dict) []value {
	out := make([]value, len(d.keys))
	for i := range d.keys {
		out[i] = tuple{d.keys[i], d.values[i]}
	}
	return out
}

func listMethod(all []value, name string, mutable bool) (value, bool, error) {
	switch name {
	case "index", "count":
		return method(name, func(a arguments) (value, error) {
			p := a.params(1, "value", "start", "stop")
			if p.err != nil {
				return nil, p.err
			}
			if name == "count" && len(a.positional) > 1 {
				return nil, failf("takes exactly one argument")
			}
			start, stop := clampRange(p.int(1, 0), p.int(2, int64(len(all))), len(all))
			n := int64(0)
			for i := start; i < stop; i++ {
				if equal(all[i], p.values[0]) {
					if name == "index" {
						return int64(i), p.err
					}
					n++
				}
			}
			if name == "index" {
				return nil, failf("%s is not in list", repr(p.values[0]))
			}
			return n, p.err
		}), true, nil
	case "copy":
		if mutable {
			return method(name, func(a arguments) (value, error) { return &list{all}, a.none() }), true, nil
		}
	case "append", "clear", "reverse", "insert", "sort", "extend", "remove", "pop":
		if mutable {
			return refuseMutation("list", name)
		}
	}
	return nil, false, nil
}

// clampRange turns Python's start and stop into places within n.
func clampRange(start, stop int64, n int) (int, int) {
	fix := func(i int64) int {
		if i < 0 {
			i += int64(n)
		}
		return int(max(0, min(int64(n), i)))
	}
	return fix(start), fix(stop)
}

func textMethod(s, name string) (value, bool) {
	if is := characterTests[name]; is != nil {
		return method(name, func(a arguments) (value, error) { return is(s), a.none() }), true
	}
	if change := textChanges[name]; change != nil {
		return method(name, func(a arguments) (value, error) { return change(s), a.none() }), true
	}
	call := textMethods[name]
	if name == "format" {
		call = braceFormat
	}
	if call == nil {
		return nil, false
	}
	return method(name, func(a arguments) (value, error) { return call(s, a) }), true
}

// characterTests are str.isdigit and its kin: true when there are characters and all match.
var characterTests = map[string]func(string) bool{
	"isalpha":   all(unicode.IsLetter),
	"isdigit":   all(isDigit),
	"isdecimal": all(func(r rune) bool { return unicode.Is(unicode.Nd, r) }),
	"isnumeric": all(func(r rune) bool { return unicode.Is(unicode.N, r) }),
	"isalnum":   all(func(r rune) bool { return unicode.IsLetter(r) || unicode.Is(unicode.N, r) }),
	"isspace":   all(unicode.IsSpace),
	"isascii":   isASCII,
	"isupper":   func(s string) bool { return isUpper(s) },
	"islower":   func(s string) bool { return isLower(s) },
	"istitle":   isTitle,
	"isprintable": func(s string) bool {
		return strings.IndexFunc(s, func(r rune) bool { return r != ' ' && !printable(r) }) < 0
	},
	"isidentifier": func(s string) bool {
		return s != "" && nameLength(s) == len(s) && !(s[0] >= '0' && s[0] <= '9')
	},
}

func all(is func(rune) bool) func(string) bool {
	return func(s string) bool {
		return s != "" && strings.IndexFunc(s, func(r rune) bool { return !is(r) }) < 0
	}
}

func isDigit(r rune) bool {
	return unicode.Is(unicode.Nd, r) || strings.ContainsRune("²³¹⁰⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉①②③④⑤⑥⑦⑧⑨", r)
}

func isUpper(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return unicode.IsLower(r) || unicode.IsTitle(r) }) < 0 && strings.IndexFunc(s, unicode.IsUpper) >= 0
}

func isLower(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return unicode.IsUpper(r) || unicode.IsTitle(r) }) < 0 && strings.IndexFunc(s, unicode.IsLower) >= 0
}

func isTitle(s string) bool {
	cased, before := false, false
	for _, r := range s {
		switch {
		case unicode.IsUpper(r) || unicode.IsTitle(r):
			if before {
				return false
			}
			cased, before = true, true
		case unicode.IsLower(r):
			if !before {
				return false
			}
			cased = true
		default:
			before = false
		}
	}
	return cased
}

var textChanges = map[string]func(string) string{
	"upper":      upper,
	"lower":      lower,
	"casefold":   func(s string) string { return strings.ReplaceAll(lower(s), "ß", "ss") },
	"capitalize": capitalize,
	"title":      title,
	"swapcase": func(s string) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsUpper(r) {
				return unicode.ToLower(r)
			}
			return unicode.ToUpper(r)
		}, s)
	},
}

// upper follows Python where one character becomes several.
func upper(s string) string {
	s = strings.ToUpper(s)
	if isASCII(s) {
		return s
	}
	return strings.NewReplacer("ß", "SS", "ﬁ", "FI", "ﬂ", "FL", "ﬀ", "FF", "ﬃ", "FFI", "ﬄ", "FFL", "ŉ", "ʼN").Replace(s)
}

// lower follows Python: a capital sigma at the end of a word has a form of its own.
func lower(s string) string {
	if !strings.ContainsAny(s, "Σİ") {
		return strings.ToLower(s)
	}
	runes := []rune(s)
	var b strings.Builder
	for i, r := range runes {
		switch {
		case r == 'İ':
			b.WriteString("i\u0307")
		case r == 'Σ' && i > 0 && unicode.IsLetter(runes[i-1]) && (i+1 == len(runes) || !unicode.IsLetter(runes[i+1])):
			b.WriteRune('ς')
		default:
			b.WriteRune(unicode.ToLower(r))
		}
	}
	return b.String()
}

func capitalize(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(unicode.ToTitle(r)) + lower(s[n:])
}

func title(s string) string {
	before := false
	return strings.Map(func(r rune) rune {
		was := before
		before = unicode.IsLetter(r)
		if was {
			return unicode.ToLower(r)
		}
		return unicode.ToTitle(r)
	}, s)
}

var textMethods = map[string]func(string, arguments) (value, error){
	"strip":  func(s string, a arguments) (value, error) { return stripText(s, a, true, true) },
	"lstrip": func(s string, a arguments) (value, error) { return stripText(s, a, true, false) },
	"rstrip": func(s string, a arguments) (value, error) { return stripText(s, a, false, true) },
	"split":  func(s string, a arguments) (value, error) { return splitText(s, a, false) },
	"rsplit": func(s string, a arguments) (value, error) { return splitText(s, a, true) },
	"splitlines": func(s string, a arguments) (value, error) {
		p := a.params(0, "keepends")
		return splitLines(s, p.bool(0, false)), p.err
	},
	"startswith": func(s string, a arguments) (value, error) { return affix(s, a, strings.HasPrefix) },
	"endswith":   func(s string, a arguments) (value, error) { return affix(s, a, strings.HasSuffix) },
	"removeprefix": func(s string, a arguments) (value, error) {
		p := a.params(1, "prefix")
		return strings.TrimPrefix(s, p.text(0, "")), p.err
	},
	"removesuffix": func(s string, a arguments) (value, error) {
		p := a.params(1, "suffix")
		return strings.TrimSuffix(s, p.text(0, "")), p.err
	},
	"replace": func(s string, a arguments) (value, error) {
		p := a.params(2, "old", "new", "count")
		old, with, n := p.text(0, ""), p.text(1, ""), p.int(2, -1)
		if p.err != nil {
			return nil, p.err
		}
		return replaceText(s, old, with, n)
	},
	"find":   func(s string, a arguments) (value, error) { return findText(s, a, strings.Index, false) },
	"rfind":  func(s string, a arguments) (value, error) { return findText(s, a, strings.LastIndex, false) },
	"index":  func(s string, a arguments) (value, error) { return findText(s, a, strings.Index, true) },
	"rindex": func(s string, a arguments) (value, error) { return findText(s, a, strings.LastIndex, true) },
	"count": func(s string, a arguments) (value, error) {
		p := a.params(1, "sub", "start", "end")
		sub := p.text(0, "")
		part := partOf(s, p, 1)
		return int64(strings.Count(part, sub)), p.err
	},
	"join": func(s string, a arguments) (value, error) {
		p := a.params(1, "iterable")
		if p.err != nil {
			return nil, p.err
		}
		all, err := items(p.values[0])
		if err != nil {
			return nil, err
		}
		parts := make([]string, len(all))
		for i, v := range all {
			t, ok := text(v)
			if !ok {
				return nil, failf("sequence item %d: expected str instance, %s found", i, typeName(v))
			}
			parts[i] = t
		}
		return strings.Join(parts, s), nil
	},
	"partition": func(s string, a arguments) (value, error) {
		p := a.params(1, "sep")
		sep := p.text(0, "")
		if p.err != nil || sep == "" {
			return nil, orEmpty(p.err)
		}
		if before, after, ok := strings.Cut(s, sep); ok {
			return tuple{before, sep, after}, nil
		}
		return tuple{s, "", ""}, nil
	},
	"rpartition": func(s string, a arguments) (value, error) {
		p := a.params(1, "sep")
		sep := p.text(0, "")
		if p.err != nil || sep == "" {
			return nil, orEmpty(p.err)
		}
		if i := strings.LastIndex(s, sep); i >= 0 {
			return tuple{s[:i], sep, s[i+len(sep):]}, nil
		}
		return tuple{"", "", s}, nil
	},
	"zfill": func(s string, a arguments) (value, error) {
		p := a.params(1, "width")
		width := p.int(0, 0)
		sign := ""
		if s != "" && (s[0] == '-' || s[0] == '+') {
			sign, s = s[:1], s[1:]
		}
		fill, err := padding(width-int64(len(sign)), s, "0")
		return sign + fill + s, firstError(p.err, err)
	},
	"ljust":  func(s string, a arguments) (value, error) { return justify(s, a, 0) },
	"rjust":  func(s string, a arguments) (value, error) { return justify(s, a, 1) },
	"center": func(s string, a arguments) (value, error) { return justify(s, a, 2) },
	"expandtabs": func(s string, a arguments) (value, error) {
		p := a.params(0, "tabsize")
		return expandTabs(s, int(p.int(0, 8))), p.err
	},
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func orEmpty(err error) error {
	if err != nil {
		return err
	}
	return failf("empty separator")
}

func stripText(s string, a arguments, left, right bool) (value, error) {
	p := a.params(0, "chars")
	cut := unicode.IsSpace
	if chars, ok := p.optionalText(0); ok {
		cut = func(r rune) bool { return strings.ContainsRune(chars, r) }
	} else {
		cut = isPythonSpace
	}
	if left {
		s = strings.TrimLeftFunc(s, cut)
	}
	if right {
		s = strings.TrimRightFunc(s, cut)
	}
	return s, p.err
}

// isPythonSpace is str.isspace for a character: Unicode's white space and the four
// information separators.
func isPythonSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

func splitText(s string, a arguments, fromRight bool) (value, error) {
	p := a.params(0, "sep", "maxsplit")
	sep, hasSep := p.optionalText(0)
	n := p.int(1, -1)
	if p.err != nil {
		return nil, p.err
	}
	if hasSep && sep == "" {
		return nil, failf("empty separator")
	}
	var parts []string
	switch {
	case hasSep && n < 0:
		parts = strings.Split(s, sep)
	case hasSep && !fromRight:
		parts = strings.SplitN(s, sep, int(min(n, int64(len(s)))+1))
	case hasSep:
		for ; n > 0; n-- {
			i := strings.LastIndex(s, sep)
			if i < 0 {
				break
			}
			parts = append([]string{s[i+len(sep):]}, parts...)
			s = s[:i]
		}
		parts = append([]string{s}, parts...)
	case n < 0:
		parts = strings.FieldsFunc(s, isPythonSpace)
	default:
		parts = splitFields(s, n, fromRight)
	}
	return textList(parts), nil
}

// splitFields splits at white space n times.
func splitFields(s string, n int64, fromRight bool) []string {
	var parts []string
	if !fromRight {
		for s = strings.TrimLeftFunc(s, isPythonSpace); s != "" && n > 0; n-- {
			i := strings.IndexFunc(s, isPythonSpace)
			if i < 0 {
				return append(parts, s)
			}
			parts = append(parts, s[:i])
			s = strings.TrimLeftFunc(s[i:], isPythonSpace)
		}
		if s != "" {
			parts = append(parts, s)
		}
		return parts
	}
	for s = strings.TrimRightFunc(s, isPythonSpace); s != "" && n > 0; n-- {
		i := strings.LastIndexFunc(s, isPythonSpace)
		if i < 0 {
			return append([]string{s}, parts...)
		}
		_, width := utf8.DecodeRuneInString(s[i:])
		parts = append([]string{s[i+width:]}, parts...)
		s = strings.TrimRightFunc(s[:i], isPythonSpace)
	}
	if s != "" {
		parts = append([]string{s}, parts...)
	}
	return parts
}

func textList(parts []string) *list {
	out := &list{make([]value, len(parts))}
	for i, part := range parts {
		out.items[i] = part
	}
	return out
}

func splitLines(s string, keepEnds bool) value {
	out := &list{items: []value{}}
	for s != "" {
		i := strings.IndexFunc(s, func(r rune) bool {
			return r >= '\n' && r <= '\r' || r >= 0x1c && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
		})
		if i < 0 {
			out.items = append(out.items, s)
			break
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			n = 2
		}
		line := s[:i]
		if keepEnds {
			line = s[:i+n]
		}
		out.items = append(out.items, line)
		s = s[i+n:]
	}
	return out
}

func affix(s string, a arguments, has func(string, string) bool) (value, error) {
	p := a.params(1, "prefix", "start", "end")
	part := partOf(s, p, 1)
	if p.err != nil {
		return nil, p.err
	}
	if several, ok := p.values[0].(tuple); ok {
		for _, v := range several {
			t, ok := text(v)
			if !ok {
				return nil, failf("tuple for startswith must only contain str, not %s", typeName(v))
			}
			if has(part, t) {
				return true, nil
			}
		}
		return false, nil
	}
	t, ok := text(p.values[0])
	if !ok {
		if u, isUndefined := p.values[0].(*undefined); isUndefined {
			return nil, u.err()
		}
		return nil, failf("first arg must be str or a tuple of str, not %s", typeName(p.values[0]))
	}
	return has(part, t), nil
}

// partOf cuts s by the start and end that arguments i and i+1 give, in characters.
func partOf(s string, p *params, i int) string {
	if !p.given[i] && !p.given[i+1] {
		return s
	}
	runes := []rune(s)
	start, stop := clampRange(p.int(i, 0), p.int(i+1, int64(len(runes))), len(runes))
	if start >= stop {
		return ""
	}
	return string(runes[start:stop])
}

func findText(s string, a arguments, find func(string, string) int, mustExist bool) (value, error) {
	p := a.params(1, "sub", "start", "end")
	sub := p.text(0, "")
	part := partOf(s, p, 1)
	if p.err != nil {
		return nil, p.err
	}
	i := find(part, sub)
	if i < 0 {
		if mustExist {
			return nil, failf("substring not found")
		}
		return int64(-1), nil
	}
	at := int64(utf8.RuneCountInString(part[:i]))
	if p.given[1] {
		start, _ := clampRange(p.int(1, 0), 0, utf8.RuneCountInString(s))
		at += int64(start)
	}
	return at, nil
}

func replaceText(s, old, with string, n int64) (value, error) {
	count := int64(strings.Count(s, old))
	if n >= 0 {
		count = min(count, n)
	}
	if int64(len(s))+count*int64(len(with)) > maxOutput {
		return nil, failf("the template makes more than %d bytes", maxOutput)
	}
	return strings.Replace(s, old, with, int(n)), nil
}

func padding(width int64, s, fill string) (string, error) {
	n := width - int64(utf8.RuneCountInString(s))
	if n <= 0 {
		return "", nil
	}
	if n > maxOutput/8 {
		return "", failf("the template makes more than %d bytes", maxOutput)
	}
	return strings.Repeat(fill, int(n)), nil
}

// justify pads on the right, on the left, or on both sides.
func justify(s string, a arguments, side int) (value, error) {
	p := a.params(1, "width", "fillchar")
	width, fill := p.int(0, 0), p.text(1, " ")
	if p.err == nil && utf8.RuneCountInString(fill) != 1 {
		return nil, failf("the fill character must be exactly one character long")
	}
	pad, err := padding(width, s, fill)
	if err := firstError(p.err, err); err != nil {
		return nil, err
	}
	switch side {
	case 0:
		return s + pad, nil
	case 1:
		return pad + s, nil
	}
	n := int64(utf8.RuneCountInString(pad))
	left := n/2 + n&width&1
	runes := []rune(pad)
	return string(runes[:left]) + s + string(runes[left:]), nil
}

func expandTabs(s string, size int) string {
	var b strings.Builder
	column := 0
	for _, r := range s {
		switch r {
		case '\t':
			if size > 0 && size < 1000 {
				n := size - column%size
				b.WriteString(strings.Repeat(" ", n))
				column += n
			}
		case '\n', '\r':
			b.WriteRune(r)
			column = 0
		default:
			b.WriteRune(r)
			column++
		}
	}
	return b.String()
}
