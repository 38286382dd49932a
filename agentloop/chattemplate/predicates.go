package chattemplate

import (
	"math/big"
	"strings"
)

// predicate is what stands after is.
type predicate func(r *renderer, v value, args arguments) (bool, error)

func testNamed(name string) predicate {
	if t := kindTests[name]; t != nil {
		return func(_ *renderer, v value, args arguments) (bool, error) { return t(v), args.none() }
	}
	switch name {
	case "eq", "equalto", "==":
		return comparison("==")
	case "ne", "!=":
		return comparison("!=")
	case "lt", "lessthan", "<":
		return comparison("<")
	case "le", "<=":
		return comparison("<=")
	case "gt", "greaterthan", ">":
		return comparison(">")
	case "ge", ">=":
		return comparison(">=")
	case "in":
		return func(_ *renderer, v value, args arguments) (bool, error) {
			p := args.params(1, "seq")
			if p.err != nil {
				return false, p.err
			}
			return contains(p.values[0], v)
		}
	case "odd":
		return modulo(func(args arguments) (value, error) { return int64(2), args.none() }, 1)
	case "even":
		return modulo(func(args arguments) (value, error) { return int64(2), args.none() }, 0)
	case "divisibleby":
		return modulo(func(args arguments) (value, error) {
			p := args.params(1, "num")
			return p.values[0], p.err
		}, 0)
	case "sameas":
		return func(_ *renderer, v value, args arguments) (bool, error) {
			p := args.params(1, "other")
			return p.err == nil && typeName(v) == typeName(p.values[0]) && equal(v, p.values[0]), p.err
		}
	case "filter", "test":
		return func(_ *renderer, v value, args arguments) (bool, error) {
			s, ok := text(v)
			if !ok {
				return false, args.none()
			}
			if name == "filter" {
				return filterNamed(s) != nil, args.none()
			}
			return testNamed(s) != nil, args.none()
		}
	}
	return nil
}

var kindTests = map[string]func(value) bool{
	"defined":   func(v value) bool { return !isUndefined(v) },
	"undefined": isUndefined,
	"none":      func(v value) bool { return v == nil },
	"boolean":   func(v value) bool { _, ok := v.(bool); return ok },
	"true":      func(v value) bool { b, ok := v.(bool); return ok && b },
	"false":     func(v value) bool { b, ok := v.(bool); return ok && !b },
	"string":    func(v value) bool { _, ok := text(v); return ok },
	"number":    func(v value) bool { _, ok := number(v); return ok },
	"float":     func(v value) bool { _, ok := v.(float64); return ok },
	"mapping":   func(v value) bool { _, ok := v.(*dict); return ok },
	"callable":  func(v value) bool { _, ok := v.(*function); return ok || isLoop(v) || isUndefined(v) },
	"escaped":   func(v value) bool { _, ok := v.(markup); return ok },
	"integer": func(v value) bool {
		switch v.(type) {
		case int64, *big.Int:
			return true
		}
		return false
	},
	// Python asks for a length and items by index, which text and mappings have, too.
	"sequence": func(v value) bool {
		switch v.(type) {
		case *list, tuple, string, markup, *dict, span, *undefined:
			return true
		}
		return false
	},
	"iterable": func(v value) bool {
		switch v.(type) {
		case *list, tuple, string, markup, *dict, span, *generator, *undefined:
			return true
		}
		return false
	},
	"lower": func(v value) bool { return isLower(str(v)) },
	"upper": func(v value) bool { return isUpper(str(v)) },
}

func isUndefined(v value) bool { _, ok := v.(*undefined); return ok }

func isLoop(v value) bool { _, ok := v.(*loop); return ok }

func comparison(op string) predicate {
	return func(_ *renderer, v value, args arguments) (bool, error) {
		p := args.params(1, "other")
		if p.err != nil {
			return false, p.err
		}
		return compare(op, v, p.values[0])
	}
}

func modulo(by func(arguments) (value, error), want int64) predicate {
	return func(r *renderer, v value, args arguments) (bool, error) {
		n, err := by(args)
		if err != nil {
			return false, err
		}
		if s, ok := text(v); ok && !strings.Contains(s, "%") {
			return false, failf("not all arguments converted during string formatting")
		}
		rest, err := r.arithmetic("%", v, n)
		if err != nil {
			return false, err
		}
		return equal(rest, want), nil
	}
}
