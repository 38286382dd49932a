package chattemplate

import (
	"math/big"
	"strings"
	"unicode/utf8"
)

// scope holds the names of a block; a name is looked up outwards.
type scope struct {
	names  map[string]value // of the outermost scope
	own    []binding        // of the others, which hold few
	parent *scope
	first  [3]binding // where own begins
}

type binding struct {
	name string
	v    value
}

func (s *scope) child() *scope {
	c := &scope{parent: s}
	c.own = c.first[:0]
	return c
}

func (s *scope) set(name string, v value) {
	for i := range s.own {
		if s.own[i].name == name {
			s.own[i].v = v
			return
		}
	}
	s.own = append(s.own, binding{name, v})
}

func (s *scope) lookup(name string) (value, bool) {
	for at := s; at != nil; at = at.parent {
		for i := range at.own {
			if at.own[i].name == name {
				return at.own[i].v, true
			}
		}
		if at.names != nil {
			if v, ok := at.names[name]; ok {
				return v, true
			}
		}
	}
	return nil, false
}

func (e *literal) eval(*renderer, *scope) (value, error) { return e.v, nil }

func (e *nameExpr) eval(r *renderer, s *scope) (value, error) {
	if v, ok := s.lookup(e.name); ok {
		return v, nil
	}
	if v, ok := globals[e.name]; ok {
		return v, nil
	}
	return &undefined{"'" + e.name + "' is undefined"}, nil
}

func evalAll(r *renderer, s *scope, exprs []expr) ([]value, error) {
	out := make([]value, len(exprs))
	for i, e := range exprs {
		v, err := e.eval(r, s)
		if err != nil {
			return nil, err
		}
		out[i] = v
	}
	return out, nil
}

func (e *listExpr) eval(r *renderer, s *scope) (value, error) {
	items, err := evalAll(r, s, e.items)
	return &list{items}, err
}

func (e *tupleExpr) eval(r *renderer, s *scope) (value, error) {
	items, err := evalAll(r, s, e.items)
	return tuple(items), err
}

func (e *dictExpr) eval(r *renderer, s *scope) (value, error) {
	d := newDict(len(e.keys))
	for i := range e.keys {
		k, err := e.keys[i].eval(r, s)
		if err != nil {
			return nil, err
		}
		v, err := e.values[i].eval(r, s)
		if err != nil {
			return nil, err
		}
		if err := d.set(k, v); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (e *attrExpr) eval(r *renderer, s *scope) (value, error) {
	of, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	return getAttr(of, e.name)
}

// getAttr is of.name: an attribute or method first, then a key.
func getAttr(of value, name string) (value, error) {
	if v, ok, err := attribute(of, name); ok || err != nil {
		return v, err
	}
	if d, isDict := of.(*dict); isDict {
		if v, ok := d.get(name); ok {
			return v, nil
		}
	}
	return &undefined{"'" + describeType(of) + "' has no attribute '" + name + "'"}, nil
}

func describeType(v value) string {
	if v == nil {
		return "None"
	}
	return typeName(v) + " object"
}

func (e *indexExpr) eval(r *renderer, s *scope) (value, error) {
	of, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	at, err := e.at.eval(r, s)
	if err != nil {
		return nil, err
	}
	return getItem(of, at)
}

// getItem is of[at]: an item first, then an attribute.
func getItem(of, at value) (value, error) {
	if u, ok := of.(*undefined); ok {
		return nil, u.err()
	}
	if d, ok := of.(*dict); ok {
		if v, ok := d.get(at); ok {
			return v, nil
		}
	} else if n, ok := number(at); ok {
		if i, ok := n.(int64); ok {
			if v, ok := itemAt(of, i); ok {
				return v, nil
			}
		}
	}
	if name, ok := text(at); ok {
		if v, ok, err := attribute(of, name); ok || err != nil {
			return v, err
		}
		return &undefined{"'" + describeType(of) + "' has no attribute '" + name + "'"}, nil
	}
	return &undefined{describeType(of) + " has no element " + repr(at)}, nil
}

func itemAt(of value, i int64) (value, bool) {
	n, at := length(of)
	if at == nil {
		return nil, false
	}
	if i < 0 {
		i += int64(n)
	}
	if i < 0 || i >= int64(n) {
		return nil, false
	}
	return at(int(i)), true
}

// length returns the length of a sequence and a function for its items; nil for what
// has no places to count.
func length(v value) (int, func(int) value) {
	switch v := v.(type) {
	case *list:
		return len(v.items), func(i int) value { return v.items[i] }
	case tuple:
		return len(v), func(i int) value { return v[i] }
	case span:
		return int(v.len()), func(i int) value { return v.start + int64(i)*v.step }
	}
	if s, ok := text(v); ok {
		if isASCII(s) {
			return len(s), func(i int) value { return s[i : i+1] }
		}
		runes := []rune(s)
		return len(runes), func(i int) value { return string(runes[i]) }
	}
	return 0, nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func (e *sliceExpr) eval(r *renderer, s *scope) (value, error) {
	of, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	if u, ok := of.(*undefined); ok {
		return nil, u.err()
	}
	var bounds [3]*int64
	for i, part := range []expr{e.start, e.stop, e.step} {
		if part == nil {
			continue
		}
		v, err := part.eval(r, s)
		if err != nil {
			return nil, err
		}
		if v == nil {
			continue
		}
		n, ok := number(v)
		whole, isInt := n.(int64)
		if !ok || !isInt {
			return nil, failf("slice indices must be integers or None")
		}
		bounds[i] = &whole
	}
	n, at := length(of)
	if at == nil {
		return nil, failf("'%s' object is not subscriptable", typeName(of))
	}
	indices, err := sliceIndices(int64(n), bounds)
	if err != nil {
		return nil, err
	}
	if _, isText := text(of); isText {
		var b strings.Builder
		for _, i := range indices {
			b.WriteString(at(int(i)).(string))
		}
		return b.String(), nil
	}
	items := make([]value, len(indices))
	for j, i := range indices {
		items[j] = at(int(i))
	}
	if _, isTuple := of.(tuple); isTuple {
		return tuple(items), nil
	}
	return &list{items}, nil
}

// sliceIndices follows Python's slice.indices.
func sliceIndices(n int64, bounds [3]*int64) ([]int64, error) {
	step := int64(1)
	if bounds[2] != nil {
		step = *bounds[2]
	}
	if step == 0 {
		return nil, failf("slice step cannot be zero")
	}
	low, high := int64(0), n
	if step < 0 {
		low, high = -1, n-1
	}
	clamp := func(bound *int64, otherwise int64) int64 {
		if bound == nil {
			return otherwise
		}
		b := *bound
		if b < 0 {
			b += n
		}
		return max(low, min(high, b))
	}
	var start, stop int64
	if step > 0 {
		start, stop = clamp(bounds[0], low), clamp(bounds[1], high)
	} else {
		start, stop = clamp(bounds[0], high), clamp(bounds[1], low)
	}
	var out []int64
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		out = append(out, i)
		if len(out) > int(n) {
			break
		}
	}
	return out, nil
}

func (a *callArgs) eval(r *renderer, s *scope) (arguments, error) {
	positional, err := evalAll(r, s, a.positional)
	if err != nil {
		return arguments{}, err
	}
	args := arguments{positional: positional}
	if a.star != nil {
		v, err := a.star.eval(r, s)
		if err != nil {
			return args, err
		}
		more, err := items(v)
		if err != nil {
			return args, err
		}
		args.positional = append(args.positional, more...)
	}
	if len(a.keywords) == 0 && a.starStar == nil {
		return args, nil
	}
	args.keyword = newDict(len(a.keywords))
	for i, name := range a.keywords {
		v, err := a.values[i].eval(r, s)
		if err != nil {
			return args, err
		}
		args.keyword.setString(name, v)
	}
	if a.starStar != nil {
		v, err := a.starStar.eval(r, s)
		if err != nil {
			return args, err
		}
		d, ok := v.(*dict)
		if !ok {
			return args, failf("argument after ** must be a mapping, not %s", typeName(v))
		}
		for i, k := range d.keys {
			if err := args.keyword.set(k, d.values[i]); err != nil {
				return args, err
			}
		}
	}
	return args, nil
}

func (e *callExpr) eval(r *renderer, s *scope) (value, error) {
	fn, err := e.fn.eval(r, s)
	if err != nil {
		return nil, err
	}
	args, err := e.args.eval(r, s)
	if err != nil {
		return nil, err
	}
	return callValue(r, fn, args)
}

func callValue(r *renderer, fn value, args arguments) (value, error) {
	switch fn := fn.(type) {
	case *function:
		if err := r.enter(); err != nil {
			return nil, err
		}
		defer r.leave()
		return fn.call(r, args)
	case *loop:
		return fn.recurse(r, args)
	case *undefined:
		return nil, fn.err()
	}
	return nil, failf("'%s' object is not callable", typeName(fn))
}

func (e *filterExpr) eval(r *renderer, s *scope) (value, error) {
	of, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	return e.apply(r, s, of)
}

func (e *filterExpr) apply(r *renderer, s *scope, of value) (value, error) {
	args, err := e.args.eval(r, s)
	if err != nil {
		return nil, err
	}
	if e.fn == nil {
		return nil, failf("line %d: no filter named '%s'", e.line, e.name)
	}
	v, err := e.fn(r, of, args)
	if err != nil {
		return nil, within("filter '"+e.name+"'", err)
	}
	return v, nil
}

func (e *testExpr) eval(r *renderer, s *scope) (value, error) {
	of, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	args, err := e.args.eval(r, s)
	if err != nil {
		return nil, err
	}
	if e.fn == nil {
		return nil, failf("line %d: no test named '%s'", e.line, e.name)
	}
	ok, err := e.fn(r, of, args)
	if err != nil {
		return nil, within("test '"+e.name+"'", err)
	}
	return ok, nil
}

func (e *unaryExpr) eval(r *renderer, s *scope) (value, error) {
	v, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	n, ok := number(v)
	if !ok {
		if u, isUndefined := v.(*undefined); isUndefined {
			return nil, u.err()
		}
		return nil, failf("bad operand type for unary %s: '%s'", e.op, typeName(v))
	}
	if e.op == "+" {
		return n, nil
	}
	if f, isFloat := n.(float64); isFloat {
		return -f, nil
	}
	return shrink(new(big.Int).Neg(toBig(n))), nil
}

func (e *binaryExpr) eval(r *renderer, s *scope) (value, error) {
	left, err := e.left.eval(r, s)
	if err != nil {
		return nil, err
	}
	right, err := e.right.eval(r, s)
	if err != nil {
		return nil, err
	}
	return r.arithmetic(e.op, left, right)
}

func (e *concatExpr) eval(r *renderer, s *scope) (value, error) {
	var b strings.Builder
	for _, item := range e.items {
		v, err := item.eval(r, s)
		if err != nil {
			return nil, err
		}
		b.WriteString(str(v))
		if err := r.grow(b.Len()); err != nil {
			return nil, err
		}
	}
	return b.String(), nil
}

func (e *compareExpr) eval(r *renderer, s *scope) (value, error) {
	left, err := e.first.eval(r, s)
	if err != nil {
		return nil, err
	}
	for i, op := range e.ops {
		right, err := e.rest[i].eval(r, s)
		if err != nil {
			return nil, err
		}
		ok, err := compare(op, left, right)
		if err != nil || !ok {
			return false, err
		}
		left = right
	}
	return true, nil
}

func compare(op string, left, right value) (bool, error) {
	switch op {
	case "==":
		return equal(left, right), nil
	case "!=":
		return !equal(left, right), nil
	case "in":
		return contains(right, left)
	case "not in":
		ok, err := contains(right, left)
		return !ok, err
	}
	c, err := order(left, right, op)
	if err != nil || c == 2 {
		return false, err
	}
	switch op {
	case "<":
		return c < 0, nil
	case "<=":
		return c <= 0, nil
	case ">":
		return c > 0, nil
	}
	return c >= 0, nil
}

func contains(in, v value) (bool, error) {
	if s, ok := text(in); ok {
		part, ok := text(v)
		if !ok {
			if u, isUndefined := v.(*undefined); isUndefined {
				return false, u.err()
			}
			return false, failf("'in <string>' requires string as left operand, not %s", typeName(v))
		}
		return strings.Contains(s, part), nil
	}
	if d, ok := in.(*dict); ok {
		if _, err := keyOf(v); err != nil {
			return false, err
		}
		_, ok := d.get(v)
		return ok, nil
	}
	all, err := items(in)
	if err != nil {
		return false, failf("argument of type '%s' is not iterable", typeName(in))
	}
	for _, item := range all {
		if equal(item, v) {
			return true, nil
		}
	}
	return false, nil
}

func (e *andExpr) eval(r *renderer, s *scope) (value, error) {
	left, err := e.left.eval(r, s)
	if err != nil {
		return nil, err
	}
	if ok, err := truth(left); err != nil || !ok {
		return left, err
	}
	return e.right.eval(r, s)
}

func (e *orExpr) eval(r *renderer, s *scope) (value, error) {
	left, err := e.left.eval(r, s)
	if err != nil {
		return nil, err
	}
	if ok, err := truth(left); err != nil || ok {
		return left, err
	}
	return e.right.eval(r, s)
}

func (e *notExpr) eval(r *renderer, s *scope) (value, error) {
	v, err := e.of.eval(r, s)
	if err != nil {
		return nil, err
	}
	ok, err := truth(v)
	return !ok, err
}

func (e *ifExpr) eval(r *renderer, s *scope) (value, error) {
	test, err := e.test.eval(r, s)
	if err != nil {
		return nil, err
	}
	ok, err := truth(test)
	switch {
	case err != nil:
		return nil, err
	case ok:
		return e.then.eval(r, s)
	case e.otherwise != nil:
		return e.otherwise.eval(r, s)
	}
	return &undefined{"the inline if-expression evaluated to false and no else section was defined"}, nil
}

// items returns everything a value yields when it is gone through.
func items(v value) ([]value, error) {
	switch v := v.(type) {
	case *list:
		return v.items, nil
	case tuple:
		return v, nil
	case *dict:
		return v.keys, nil
	case *undefined:
		return nil, nil
	case *generator:
		var out []value
		for {
			item, ok, err := v.next()
			if err != nil || !ok {
				return out, err
			}
			out = append(out, item)
		}
	}
	if n, at := length(v); at != nil {
		out := make([]value, n)
		for i := range out {
			out[i] = at(i)
		}
		return out, nil
	}
	return nil, failf("'%s' object is not iterable", typeName(v))
}
