package chattemplate

import (
	"math"
	"math/big"
	"strings"
)

// value is what an expression yields, as one of
//
//	nil (None)  bool  int64  *big.Int  float64  string  markup
//	*list  tuple  *dict  span (range)  *generator
//	*undefined  *namespace  *function  *loop
//
// Integers that fit are int64, never *big.Int.
type value any

// markup is a string that |safe or |escape has marked.
type markup string

type list struct{ items []value }

type tuple []value

// undefined is what an unknown name, key or attribute yields. It renders as nothing
// and fails when it is used for more.
type undefined struct {
	what string // for the message: 'x' is undefined
}

func (u *undefined) err() error { return failf("%s", u.what) }

// dict keeps the order in which its keys were set. Keys are never taken out.
type dict struct {
	keys   []value
	values []value
	index  map[key]int // nil while there are few keys, all of them plain strings
}

// fewKeys is up to how many keys of a dict are looked for one by one: messages and
// calls have no more, and a map for each of them costs more than it spares.
const fewKeys = 8

// key is a dict key by Python's rules: 1, 1.0 and True are the same one.
type key struct {
	kind byte // s, n, none, t(uple) by its representation
	text string
	num  float64
}

func newDict(capacity int) *dict {
	return &dict{keys: make([]value, 0, capacity), values: make([]value, 0, capacity)}
}

// at returns the place of a key that is a plain string, and -1 where there is none.
func (d *dict) at(s string) int {
	if d.index != nil {
		if i, ok := d.index[key{kind: 's', text: s}]; ok {
			return i
		}
		return -1
	}
	for i, k := range d.keys {
		if known, ok := k.(string); ok && known == s {
			return i
		}
	}
	return -1
}

// makeIndex turns to looking keys up in a map.
func (d *dict) makeIndex() {
	d.index = make(map[key]int, 2*len(d.keys)+1)
	for i, k := range d.keys {
		if s, ok := k.(string); ok {
			d.index[key{kind: 's', text: s}] = i
		}
	}
}

func keyOf(v value) (key, error) {
	switch v := v.(type) {
	case nil:
		return key{kind: '0'}, nil
	case string:
		return key{kind: 's', text: v}, nil
	case markup:
		return key{kind: 's', text: string(v)}, nil
	case bool:
		if v {
			return key{kind: 'n', num: 1}, nil
		}
		return key{kind: 'n'}, nil
	case int64:
		return key{kind: 'n', num: float64(v)}, nil
	case float64:
		return key{kind: 'n', num: v}, nil
	case *big.Int:
		return key{kind: 'b', text: v.String()}, nil
	case tuple:
		for _, item := range v {
			if _, err := keyOf(item); err != nil {
				return key{}, err
			}
		}
		return key{kind: 't', text: repr(v)}, nil
	case *undefined:
		return key{kind: 'u', text: v.what}, nil
	}
	return key{}, failf("unhashable type: '%s'", typeName(v))
}

func (d *dict) get(k value) (value, bool) {
	if s, ok := k.(string); ok {
		i := d.at(s)
		if i < 0 {
			return nil, false
		}
		return d.values[i], true
	}
	hashed, err := keyOf(k)
	if err != nil {
		return nil, false
	}
	if d.index == nil {
		if hashed.kind != 's' {
			return nil, false
		}
		return d.get(hashed.text)
	}
	i, ok := d.index[hashed]
	if !ok {
		return nil, false
	}
	return d.values[i], true
}

func (d *dict) set(k, v value) error {
	if s, ok := k.(string); ok && d.index == nil {
		if i := d.at(s); i >= 0 {
			d.values[i] = v
			return nil
		}
		if len(d.keys) < fewKeys {
			d.keys, d.values = append(d.keys, k), append(d.values, v)
			return nil
		}
	}
	hashed, err := keyOf(k)
	if err != nil {
		return err
	}
	if d.index == nil {
		d.makeIndex()
	}
	if i, ok := d.index[hashed]; ok {
		d.values[i] = v
		return nil
	}
	d.index[hashed] = len(d.keys)
	d.keys = append(d.keys, k)
	d.values = append(d.values, v)
	return nil
}

func (d *dict) setString(k string, v value) {
	if err := d.set(k, v); err != nil {
		panic("a string is always a key")
	}
}

// span is range(start, stop, step).
type span struct{ start, stop, step int64 }

func (s span) len() int64 {
	if s.step > 0 && s.start < s.stop {
		return (s.stop-s.start-1)/s.step + 1
	}
	if s.step < 0 && s.start > s.stop {
		return (s.start-s.stop-1)/-s.step + 1
	}
	return 0
}

// generator is a sequence that can be gone through once, as map and select give.
type generator struct {
	next func() (value, bool, error)
}

func generatorOf(items []value) *generator {
	i := 0
	return &generator{next: func() (value, bool, error) {
		if i >= len(items) {
			return nil, false, nil
		}
		i++
		return items[i-1], true, nil
	}}
}

// namespace is the one object whose attributes a template can set.
type namespace struct{ attrs *dict }

// arguments of a call.
type arguments struct {
	positional []value
	keyword    *dict // nil when there are none
}

// function is a macro, a method bound to its object, or a global.
type function struct {
	name string
	call func(r *renderer, args arguments) (value, error)
	// attrs are read-only, as the name and arguments of a macro.
	attrs map[string]value
}

// laterOf is a generator whose items are made when the first one is asked for, so
// that failures come where Python has them.
func laterOf(make func() ([]value, error)) *generator {
	var g *generator
	return &generator{next: func() (value, bool, error) {
		if g == nil {
			all, err := make()
			if err != nil {
				return nil, false, err
			}
			g = generatorOf(all)
		}
		return g.next()
	}}
}

func truth(v value) (bool, error) {
	switch v := v.(type) {
	case nil:
		return false, nil
	case bool:
		return v, nil
	case int64:
		return v != 0, nil
	case float64:
		return v != 0, nil
	case *big.Int:
		return v.Sign() != 0, nil
	case string:
		return v != "", nil
	case markup:
		return v != "", nil
	case *list:
		return len(v.items) > 0, nil
	case tuple:
		return len(v) > 0, nil
	case *dict:
		return len(v.keys) > 0, nil
	case span:
		return v.len() > 0, nil
	case *undefined:
		return false, nil
	}
	return true, nil
}

// typeName is Python's name of a value's type, for messages.
func typeName(v value) string {
	switch v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case markup:
		return "Markup"
	case *list:
		return "list"
	case tuple:
		return "tuple"
	case *dict:
		return "dict"
	case span:
		return "range"
	case *generator:
		return "generator"
	case *undefined:
		return "Undefined"
	case *namespace:
		return "Namespace"
	case *function:
		return "function"
	case *loop:
		return "LoopContext"
	}
	return "object"
}

// text returns the characters of a string of either kind.
func text(v value) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case markup:
		return string(v), true
	}
	return "", false
}

// number is a numeric value: Python counts booleans among them.
func number(v value) (value, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return int64(1), true
		}
		return int64(0), true
	case int64, float64, *big.Int:
		return v, true
	}
	return nil, false
}

func toBig(v value) *big.Int {
	switch v := v.(type) {
	case int64:
		return big.NewInt(v)
	case *big.Int:
		return v
	}
	return new(big.Int)
}

// shrink returns an integer as int64 where it fits.
func shrink(b *big.Int) value {
	if b.IsInt64() {
		return b.Int64()
	}
	return b
}

func toFloat(v value) float64 {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		return f
	case float64:
		return v
	}
	return math.NaN()
}

func equal(a, b value) bool {
	if x, ok := number(a); ok {
		y, ok := number(b)
		return ok && compareNumbers(x, y) == 0
	}
	if s, ok := text(a); ok {
		t, ok := text(b)
		return ok && s == t
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case *list:
		o, ok := b.(*list)
		return ok && equalItems(a.items, o.items)
	case tuple:
		o, ok := b.(tuple)
		return ok && equalItems(a, o)
	case *dict:
		o, ok := b.(*dict)
		if !ok || len(a.keys) != len(o.keys) {
			return false
		}
		for i, k := range a.keys {
			other, ok := o.get(k)
			if !ok || !equal(a.values[i], other) {
				return false
			}
		}
		return true
	case *undefined:
		_, ok := b.(*undefined)
		return ok
	case span:
		o, ok := b.(span)
		return ok && a.len() == o.len() && (a.len() == 0 || a.start == o.start && (a.len() == 1 || a.step == o.step))
	}
	return a == b
}

func equalItems(a, b []value) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// compareNumbers returns -1, 0 or 1, and 2 where one is no number (NaN).
func compareNumbers(a, b value) int {
	x, xf := a.(float64)
	y, yf := b.(float64)
	if !xf && !yf {
		if i, ok := a.(int64); ok {
			if j, ok := b.(int64); ok {
				switch {
				case i < j:
					return -1
				case i > j:
					return 1
				}
				return 0
			}
		}
		return toBig(a).Cmp(toBig(b))
	}
	if !xf {
		x = toFloat(a)
	}
	if !yf {
		y = toFloat(b)
	}
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	case x == y:
		return 0
	}
	return 2
}

// order compares for < and >; values of different kinds have no order.
func order(a, b value, op string) (int, error) {
	if x, ok := number(a); ok {
		if y, ok := number(b); ok {
			return compareNumbers(x, y), nil
		}
	}
	if s, ok := text(a); ok {
		if t, ok := text(b); ok {
			return strings.Compare(s, t), nil
		}
	}
	var left, right []value
	switch x := a.(type) {
	case *list:
		if y, ok := b.(*list); ok {
			left, right = x.items, y.items
		} else {
			return 0, noOrder(a, b, op)
		}
	case tuple:
		if y, ok := b.(tuple); ok {
			left, right = x, y
		} else {
			return 0, noOrder(a, b, op)
		}
	default:
		return 0, noOrder(a, b, op)
	}
	for i := range min(len(left), len(right)) {
		if !equal(left[i], right[i]) {
			return order(left[i], right[i], op)
		}
	}
	return compareNumbers(int64(len(left)), int64(len(right))), nil
}

func noOrder(a, b value, op string) error {
	for _, v := range []value{a, b} {
		if u, ok := v.(*undefined); ok {
			return u.err()
		}
	}
	return failf("'%s' not supported between instances of '%s' and '%s'", op, typeName(a), typeName(b))
}
