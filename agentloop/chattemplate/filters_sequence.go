package chattemplate

import (
	"sort"
	"strings"
)

func sequenceFilterNamed(name string) filter {
	switch name {
	case "length", "count":
		return func(_ *renderer, v value, args arguments) (value, error) {
			if d, ok := v.(*dict); ok {
				return int64(len(d.keys)), args.none()
			}
			if isUndefined(v) {
				return int64(0), args.none()
			}
			n, at := length(v)
			if at == nil {
				return nil, failf("object of type '%s' has no len()", typeName(v))
			}
			return int64(n), args.none()
		}
	case "first":
		return func(_ *renderer, v value, args arguments) (value, error) {
			all, err := items(v)
			if err != nil || len(all) == 0 {
				return &undefined{"No first item, sequence was empty."}, err
			}
			return all[0], args.none()
		}
	case "last":
		return func(_ *renderer, v value, args arguments) (value, error) {
			if _, once := v.(*generator); once {
				return nil, failf("'generator' object is not reversible")
			}
			all, err := items(v)
			if err != nil || len(all) == 0 {
				return &undefined{"No last item, sequence was empty."}, err
			}
			return all[len(all)-1], args.none()
		}
	case "list":
		return func(_ *renderer, v value, args arguments) (value, error) {
			all, err := items(v)
			return &list{append([]value{}, all...)}, firstError(err, args.none())
		}
	case "items":
		return func(_ *renderer, v value, args arguments) (value, error) {
			return laterOf(func() ([]value, error) {
				switch v := v.(type) {
				case *undefined:
					return nil, nil
				case *dict:
					return pairs(v), nil
				}
				return nil, failf("can only get item pairs from a mapping")
			}), args.none()
		}
	case "dictsort":
		return filterDictSort
	case "join":
		return filterJoin
	case "reverse":
		return filterReverse
	case "sort":
		return filterSort
	case "unique":
		return filterUnique
	case "min", "max":
		return filterExtreme(name == "max")
	case "sum":
		return filterSum
	case "map":
		return filterMap
	case "select", "reject":
		return filterSelect(name == "select", false)
	case "selectattr", "rejectattr":
		return filterSelect(name == "selectattr", true)
	case "groupby":
		return filterGroupBy
	case "batch":
		return filterBatch
	case "slice":
		return filterSlice
	}
	return nil
}

// path reads attribute="a.b.0" the way the filters do.
func path(v value) []value {
	if v == nil {
		return nil
	}
	s, ok := text(v)
	if !ok {
		return []value{v}
	}
	var parts []value
	for _, part := range strings.Split(s, ".") {
		if n, ok := parseInt(part, 10); ok && part[0] != '-' && part[0] != '+' {
			parts = append(parts, n)
		} else {
			parts = append(parts, part)
		}
	}
	return parts
}

func follow(v value, parts []value) (value, error) {
	for _, part := range parts {
		var err error
		if v, err = getItem(v, part); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// sortKey is what sort, unique, min and max compare: text without regard to case,
// unless asked otherwise.
func sortKey(v value, caseSensitive bool) value {
	if s, ok := text(v); ok && !caseSensitive {
		return lower(s)
	}
	return v
}

func sortValues(all []value, by func(value) value, reverse bool) error {
	var failure error
	sort.SliceStable(all, func(i, j int) bool {
		a, b := by(all[i]), by(all[j])
		if reverse {
			a, b = b, a
		}
		c, err := order(a, b, "<")
		if err != nil && failure == nil {
			failure = err
		}
		return c == -1
	})
	return failure
}

func filterDictSort(_ *renderer, v value, args arguments) (value, error) {
	p := args.params(0, "case_sensitive", "by", "reverse")
	d, ok := v.(*dict)
	if !ok {
		return nil, failf("'%s' object has no attribute 'items'", typeName(v))
	}
	at := 0
	switch by := p.text(1, "key"); by {
	case "key":
	case "value":
		at = 1
	default:
		return nil, failf(`you can only sort by either "key" or "value"`)
	}
	all := pairs(d)
	sensitive := p.bool(0, false)
	err := sortValues(all, func(v value) value { return sortKey(v.(tuple)[at], sensitive) }, p.bool(2, false))
	return &list{all}, firstError(p.err, err)
}

func filterJoin(r *renderer, v value, args arguments) (value, error) {
	p := args.params(0, "d", "attribute")
	all, err := items(v)
	if err := firstError(p.err, err); err != nil {
		return nil, err
	}
	sep := str(p.value(0, ""))
	parts := path(p.value(1, nil))
	var b strings.Builder
	for i, item := range all {
		if item, err = follow(item, parts); err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteString(sep)
		}
		b.WriteString(str(item))
		if err := r.grow(b.Len()); err != nil {
			return nil, err
		}
	}
	return b.String(), nil
}

func filterReverse(_ *renderer, v value, args arguments) (value, error) {
	if s, ok := text(v); ok {
		runes := []rune(s)
		for i, j := 0, len(runes)-1; i < j; i, j = i+1, j-1 {
			runes[i], runes[j] = runes[j], runes[i]
		}
		return string(runes), args.none()
	}
	all, err := items(v)
	if err != nil {
		return nil, failf("argument must be iterable")
	}
	out := make([]value, len(all))
	for i, item := range all {
		out[len(all)-1-i] = item
	}
	if _, once := v.(*generator); once {
		return &list{out}, args.none()
	}
	return generatorOf(out), args.none()
}

func filterSort(_ *renderer, v value, args arguments) (value, error) {
	p := args.params(0, "reverse", "case_sensitive", "attribute")
	all, err := items(v)
	if err := firstError(p.err, err); err != nil {
		return nil, err
	}
	sensitive := p.bool(1, false)
	attributes := [][]value{nil}
	if s, ok := text(p.value(2, nil)); ok {
		attributes = nil
		for _, part := range strings.Split(s, ",") {
			attributes = append(attributes, path(part))
		}
	} else if p.value(2, nil) != nil {
		attributes = [][]value{path(p.values[2])}
	}
	keyed := make([]value, len(all))
	for i, item := range all {
		keys := make([]value, len(attributes))
		for j, parts := range attributes {
			k, err := follow(item, parts)
			if err != nil {
				return nil, err
			}
			keys[j] = sortKey(k, sensitive)
		}
		keyed[i] = tuple{&list{keys}, item}
	}
	err = sortValues(keyed, func(v value) value { return v.(tuple)[0] }, p.bool(0, false))
	for i := range keyed {
		keyed[i] = keyed[i].(tuple)[1]
	}
	return &list{keyed}, err
}

func filterUnique(_ *renderer, v value, args arguments) (value, error) {
	p := args.params(0, "case_sensitive", "attribute")
	parts, sensitive := path(p.value(1, nil)), p.bool(0, false)
	if p.err != nil {
		return nil, p.err
	}
	seen := newDict(0)
	return lazily(v, func(item value) (value, bool, error) {
		k, err := follow(item, parts)
		if err != nil {
			return nil, false, err
		}
		k = sortKey(k, sensitive)
		if _, twice := seen.get(k); twice {
			return nil, false, nil
		}
		return item, true, seen.set(k, nil)
	}), nil
}

func filterExtreme(largest bool) filter {
	return func(_ *renderer, v value, args arguments) (value, error) {
		p := args.params(0, "case_sensitive", "attribute")
		all, err := items(v)
		if err := firstError(p.err, err); err != nil {
			return nil, err
		}
		if len(all) == 0 {
			return &undefined{"No aggregated item, sequence was empty."}, nil
		}
		parts := path(p.value(1, nil))
		var best, bestKey value
		for i, item := range all {
			k, err := follow(item, parts)
			if err != nil {
				return nil, err
			}
			k = sortKey(k, p.bool(0, false))
			if i == 0 {
				best, bestKey = item, k
				continue
			}
			c, err := order(k, bestKey, "<")
			if err != nil {
				return nil, err
			}
			if largest && c == 1 || !largest && c == -1 {
				best, bestKey = item, k
			}
		}
		return best, nil
	}
}

func filterSum(r *renderer, v value, args arguments) (value, error) {
	p := args.params(0, "attribute", "start")
	all, err := items(v)
	if err := firstError(p.err, err); err != nil {
		return nil, err
	}
	parts := path(p.value(0, nil))
	total := p.value(1, int64(0))
	if _, isText := text(total); isText {
		return nil, failf("sum() can't sum strings")
	}
	for _, item := range all {
		if item, err = follow(item, parts); err != nil {
			return nil, err
		}
		if total, err = r.arithmetic("+", total, item); err != nil {
			return nil, err
		}
	}
	return total, nil
}

// lazily applies fn to each item when it is asked for, as Python's generators do;
// fn also says whether the item is kept.
func lazily(v value, fn func(value) (value, bool, error)) *generator {
	var all []value
	i, started := 0, false
	return &generator{next: func() (value, bool, error) {
		if !started {
			var err error
			if ok, _ := truth(v); ok { // what is empty or zero counts as no items
				if all, err = items(v); err != nil {
					return nil, false, err
				}
			}
			started = true
		}
		for i < len(all) {
			i++
			out, keep, err := fn(all[i-1])
			if err != nil {
				return nil, false, err
			}
			if keep {
				return out, true, nil
			}
		}
		return nil, false, nil
	}}
}

func filterMap(r *renderer, v value, args arguments) (value, error) {
	if len(args.positional) == 0 {
		if args.keyword == nil {
			return nil, failf("map requires a filter argument")
		}
		p := args.params(1, "attribute", "default")
		if p.err != nil {
			return nil, p.err
		}
		parts := path(p.values[0])
		return lazily(v, func(item value) (value, bool, error) {
			for _, part := range parts {
				var err error
				if item, err = getItem(item, part); err != nil {
					return nil, false, err
				}
				if p.given[1] && p.values[1] != nil && isUndefined(item) {
					item = p.values[1]
				}
			}
			return item, true, nil
		}), nil
	}
	name, ok := text(args.positional[0])
	if !ok {
		return nil, failf("map takes the name of a filter")
	}
	fn := filterNamed(name)
	if fn == nil {
		return nil, failf("no filter named '%s'", name)
	}
	rest := arguments{positional: args.positional[1:], keyword: args.keyword}
	return lazily(v, func(item value) (value, bool, error) {
		if err := r.step(); err != nil {
			return nil, false, err
		}
		out, err := fn(r, item, rest)
		return out, true, err
	}), nil
}

func filterSelect(keep, byAttribute bool) filter {
	return func(r *renderer, v value, args arguments) (value, error) {
		var parts []value
		if byAttribute {
			if len(args.positional) == 0 {
				return nil, failf("missing parameter for attribute name")
			}
			parts = path(args.positional[0])
			args.positional = args.positional[1:]
		}
		fn := func(_ *renderer, v value, _ arguments) (bool, error) { return truth(v) }
		if len(args.positional) > 0 {
			name, ok := text(args.positional[0])
			if !ok {
				return nil, failf("the name of a test must be text")
			}
			named := testNamed(name)
			if named == nil {
				return nil, failf("no test named '%s'", name)
			}
			fn = named
			args.positional = args.positional[1:]
		}
		return lazily(v, func(item value) (value, bool, error) {
			if err := r.step(); err != nil {
				return nil, false, err
			}
			of, err := follow(item, parts)
			if err != nil {
				return nil, false, err
			}
			ok, err := fn(r, of, args)
			return item, ok == keep, err
		}), nil
	}
}

func filterGroupBy(_ *renderer, v value, args arguments) (value, error) {
	p := args.params(1, "attribute", "default", "case_sensitive")
	all, err := items(v)
	if err := firstError(p.err, err); err != nil {
		return nil, err
	}
	parts := path(p.values[0])
	keyed := make([]value, len(all))
	for i, item := range all {
		k, err := follow(item, parts)
		if err != nil {
			return nil, err
		}
		if isUndefined(k) && p.given[1] {
			k = p.values[1]
		}
		keyed[i] = tuple{sortKey(k, p.bool(2, false)), item, k}
	}
	if err := sortValues(keyed, func(v value) value { return v.(tuple)[0] }, false); err != nil {
		return nil, err
	}
	out := &list{items: []value{}}
	var members *list
	var last value
	for _, entry := range keyed {
		entry := entry.(tuple)
		if members == nil || !equal(last, entry[0]) {
			members, last = &list{}, entry[0]
			out.items = append(out.items, tuple{entry[2], members})
		}
		members.items = append(members.items, entry[1])
	}
	return out, nil
}

func filterBatch(_ *renderer, v value, args arguments) (value, error) {
	p := args.params(1, "linecount", "fill_with")
	n, fill := p.int(0, 0), p.value(1, nil)
	if p.err != nil {
		return nil, p.err
	}
	return laterOf(func() ([]value, error) { return batches(v, n, fill) }), nil
}

func batches(v value, n int64, fill value) ([]value, error) {
	all, err := items(v)
	if err != nil {
		return nil, err
	}
	var out []value
	var row []value
	for _, item := range all {
		if int64(len(row)) == n {
			out, row = append(out, &list{row}), nil
		}
		row = append(row, item)
	}
	if len(row) > 0 {
		for fill != nil && int64(len(row)) < n {
			row = append(row, fill)
			if len(row) > maxSteps/1000 {
				return nil, failf("batch fills more than it should")
			}
		}
		out = append(out, &list{row})
	}
	return out, nil
}

func filterSlice(_ *renderer, v value, args arguments) (value, error) {
	p := args.params(1, "slices", "fill_with")
	n, fill := p.int(0, 0), p.value(1, nil)
	if p.err != nil {
		return nil, p.err
	}
	return laterOf(func() ([]value, error) { return cutInto(v, n, fill) }), nil
}

func cutInto(v value, n int64, fill value) ([]value, error) {
	all, err := items(v)
	if err != nil {
		return nil, err
	}
	if n <= 0 || n > 1_000_000 {
		return nil, failf("integer division or modulo by zero")
	}
	each, extra := int64(len(all))/n, int64(len(all))%n
	var out []value
	offset := int64(0)
	for i := range n {
		start := offset + i*each
		if i < extra {
			offset++
		}
		part := append([]value{}, all[start:offset+(i+1)*each]...)
		if fill != nil && i >= extra {
			part = append(part, fill)
		}
		out = append(out, &list{part})
	}
	return out, nil
}
