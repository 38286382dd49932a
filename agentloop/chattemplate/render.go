package chattemplate

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Bounds of one rendering. Templates are foreign code: a loop over a large range or a
// macro that calls itself must end in an error.
const (
	maxOutput = 256 << 20 // bytes rendered, and of one value
	maxSteps  = 3_000_000
	maxDepth  = 200 // calls within calls
)

// renderer is the state of one rendering.
type renderer struct {
	out         []byte
	captures    int // blocks being captured, whose text is no output
	generations []Span
	steps       int
	depth       int
	now         time.Time
}

// Span is a part of the rendered text, in bytes.
type Span struct{ Start, End int }

// renderError is a failure of a template while it renders.
type renderError struct{ msg string }

func (e *renderError) Error() string { return e.msg }

func failf(format string, args ...any) error {
	return &renderError{fmt.Sprintf(format, args...)}
}

func within(where string, err error) error {
	var raised *RaisedError
	if errors.As(err, &raised) {
		return err
	}
	return fmt.Errorf("%s: %w", where, err)
}

// RaisedError is what a template raised itself with raise_exception: the
// conversation is not one that the model was made for.
type RaisedError struct{ Message string }

func (e *RaisedError) Error() string { return "the chat template refuses: " + e.Message }

var (
	errBreak    = errors.New("break outside a loop")
	errContinue = errors.New("continue outside a loop")
)

func (r *renderer) step() error {
	r.steps++
	if r.steps > maxSteps {
		return failf("the template does more than %d steps", maxSteps)
	}
	return nil
}

func (r *renderer) grow(n int) error {
	if n > maxOutput {
		return failf("the template makes more than %d bytes", maxOutput)
	}
	r.steps += n / 64 // large values cost work, too
	return r.step()
}

func (r *renderer) enter() error {
	r.depth++
	if r.depth > maxDepth {
		return failf("maximum recursion depth exceeded")
	}
	return r.step()
}

func (r *renderer) leave() { r.depth-- }

func (r *renderer) write(s string) error {
	if len(r.out)+len(s) > maxOutput {
		return failf("the template renders more than %d bytes", maxOutput)
	}
	r.out = append(r.out, s...)
	return nil
}

func (r *renderer) runAll(s *scope, body []stmt) error {
	for _, st := range body {
		if err := r.step(); err != nil {
			return err
		}
		if err := st.run(r, s); err != nil {
			return err
		}
	}
	return nil
}

// capture returns what body renders in place of rendering it.
func (r *renderer) capture(s *scope, body []stmt) (string, error) {
	start := len(r.out)
	r.captures++
	err := r.runAll(s, body)
	r.captures--
	text := string(r.out[start:])
	r.out = r.out[:start]
	return text, err
}

func (st *textStmt) run(r *renderer, _ *scope) error { return r.write(st.text) }

func (st *outputStmt) run(r *renderer, s *scope) error {
	v, err := st.of.eval(r, s)
	if err != nil {
		return err
	}
	return r.write(str(v))
}

func (st *ifStmt) run(r *renderer, s *scope) error {
	for i, test := range st.tests {
		v, err := test.eval(r, s)
		if err != nil {
			return err
		}
		ok, err := truth(v)
		if err != nil {
			return err
		}
		if ok {
			return r.runAll(s, st.bodies[i])
		}
	}
	return r.runAll(s, st.otherwise)
}

// assign sets a target, taking several values apart.
func (r *renderer) assign(s *scope, t target, v value) error {
	switch {
	case t.parts != nil:
		all, err := items(v)
		if err != nil {
			return failf("cannot unpack non-iterable %s object", typeName(v))
		}
		if len(all) != len(t.parts) {
			return failf("%d values to unpack, expected %d", len(all), len(t.parts))
		}
		for i, part := range t.parts {
			if err := r.assign(s, part, all[i]); err != nil {
				return err
			}
		}
	case t.attr != "":
		of, _ := s.lookup(t.name)
		ns, ok := of.(*namespace)
		if !ok {
			return failf("cannot assign attribute on non-namespace object")
		}
		ns.attrs.setString(t.attr, v)
	default:
		s.set(t.name, v)
	}
	return nil
}

func (st *setStmt) run(r *renderer, s *scope) error {
	v, err := st.of.eval(r, s)
	if err != nil {
		return err
	}
	return r.assign(s, st.target, v)
}

func (st *setBlockStmt) run(r *renderer, s *scope) error {
	text, err := r.capture(s.child(), st.body)
	if err != nil {
		return err
	}
	var v value = text
	for _, f := range st.filters {
		if v, err = f.apply(r, s, v); err != nil {
			return err
		}
	}
	return r.assign(s, st.target, v)
}

func (st *filterStmt) run(r *renderer, s *scope) error {
	text, err := r.capture(s.child(), st.body)
	if err != nil {
		return err
	}
	var v value = text
	for _, f := range st.filters {
		if v, err = f.apply(r, s, v); err != nil {
			return err
		}
	}
	return r.write(str(v))
}

func (st *withStmt) run(r *renderer, s *scope) error {
	inner := s.child()
	for i, t := range st.targets {
		v, err := st.values[i].eval(r, s)
		if err != nil {
			return err
		}
		if err := r.assign(inner, t, v); err != nil {
			return err
		}
	}
	return r.runAll(inner, st.body)
}

func (st *scopeStmt) run(r *renderer, s *scope) error { return r.runAll(s.child(), st.body) }

func (st *generationStmt) run(r *renderer, s *scope) error {
	start := len(r.out)
	if err := r.runAll(s.child(), st.body); err != nil {
		return err
	}
	if r.captures == 0 {
		r.generations = append(r.generations, Span{start, len(r.out)})
	}
	return nil
}

func (st *autoescapeStmt) run(r *renderer, s *scope) error {
	v, err := st.on.eval(r, s)
	if err != nil {
		return err
	}
	on, err := truth(v)
	if err != nil {
		return err
	}
	if on {
		return failf("line %d: autoescape is not available in chat templates", st.line)
	}
	return r.runAll(s.child(), st.body)
}

func (st *unavailableStmt) run(*renderer, *scope) error {
	return failf("line %d: '%s' is not available in chat templates: there are no other templates to load", st.line, st.tag)
}

func (breakStmt) run(*renderer, *scope) error    { return errBreak }
func (continueStmt) run(*renderer, *scope) error { return errContinue }

// loop is the variable of that name in a for statement.
type loop struct {
	items   []value
	at      int
	depth   int // from 0
	changed []value
	again   func(r *renderer, over value) (value, error) // of a recursive loop
}

func (l *loop) recurse(r *renderer, args arguments) (value, error) {
	if l.again == nil {
		return nil, failf("the loop must have the 'recursive' marker to be called recursively")
	}
	if len(args.positional) != 1 {
		return nil, failf("a recursive loop takes what it goes through")
	}
	if err := r.enter(); err != nil {
		return nil, err
	}
	defer r.leave()
	return l.again(r, args.positional[0])
}

func (l *loop) attribute(name string) (value, bool) {
	neighbour := func(i int, what string) value {
		if i < 0 || i >= len(l.items) {
			return &undefined{"there is no " + what + " item"}
		}
		return l.items[i]
	}
	n := int64(len(l.items))
	switch name {
	case "index":
		return int64(l.at) + 1, true
	case "index0":
		return int64(l.at), true
	case "revindex":
		return n - int64(l.at), true
	case "revindex0":
		return n - int64(l.at) - 1, true
	case "first":
		return l.at == 0, true
	case "last":
		return l.at == len(l.items)-1, true
	case "length":
		return n, true
	case "depth":
		return int64(l.depth) + 1, true
	case "depth0":
		return int64(l.depth), true
	case "previtem":
		return neighbour(l.at-1, "previous"), true
	case "nextitem":
		return neighbour(l.at+1, "next"), true
	case "cycle":
		return &function{name: name, call: func(_ *renderer, args arguments) (value, error) {
			if len(args.positional) == 0 {
				return nil, failf("no items for cycling given")
			}
			return args.positional[l.at%len(args.positional)], nil
		}}, true
	case "changed":
		return &function{name: name, call: func(_ *renderer, args arguments) (value, error) {
			if l.changed != nil && equalItems(l.changed, args.positional) {
				return false, nil
			}
			l.changed = slices.Clone(args.positional)
			if l.changed == nil {
				l.changed = []value{}
			}
			return true, nil
		}}, true
	}
	return nil, false
}

func (st *forStmt) run(r *renderer, s *scope) error {
	over, err := st.over.eval(r, s)
	if err != nil {
		return err
	}
	return st.runOver(r, s, over, 0)
}

func (st *forStmt) runOver(r *renderer, s *scope, over value, depth int) error {
	all, err := items(over)
	if err != nil {
		return err
	}
	if st.test != nil {
		if all, err = st.filter(r, s, all); err != nil {
			return err
		}
	}
	if len(all) == 0 {
		return r.runAll(s.child(), st.otherwise)
	}
	l := &loop{items: all, depth: depth}
	if st.recursive {
		l.again = func(r *renderer, over value) (value, error) {
			start := len(r.out)
			r.captures++
			err := st.runOver(r, s, over, depth+1)
			r.captures--
			text := string(r.out[start:])
			r.out = r.out[:start]
			return text, err
		}
	}
	for i, item := range all {
		if err := r.step(); err != nil {
			return err
		}
		l.at = i
		inner := s.child()
		inner.set("loop", l)
		if err := r.assign(inner, st.target, item); err != nil {
			return err
		}
		err := r.runAll(inner, st.body)
		if err == errBreak {
			return nil
		}
		if err != nil && err != errContinue {
			return err
		}
	}
	return nil
}

func (st *forStmt) filter(r *renderer, s *scope, all []value) ([]value, error) {
	var kept []value
	for _, item := range all {
		if err := r.step(); err != nil {
			return nil, err
		}
		inner := s.child()
		if err := r.assign(inner, st.target, item); err != nil {
			return nil, err
		}
		v, err := st.test.eval(r, inner)
		if err != nil {
			return nil, err
		}
		ok, err := truth(v)
		if err != nil {
			return nil, err
		}
		if ok {
			kept = append(kept, item)
		}
	}
	return kept, nil
}

func (st *macroStmt) run(_ *renderer, s *scope) error {
	s.set(st.macro.name, st.macro.bind(s))
	return nil
}

func (st *callStmt) run(r *renderer, s *scope) error {
	fn, err := st.call.fn.eval(r, s)
	if err != nil {
		return err
	}
	args, err := st.call.args.eval(r, s)
	if err != nil {
		return err
	}
	if args.keyword == nil {
		args.keyword = newDict(1)
	}
	args.keyword.setString("caller", st.body.bind(s))
	v, err := callValue(r, fn, args)
	if err != nil {
		return err
	}
	return r.write(str(v))
}

// bind makes a macro a function that sees the names of its place.
func (m *macro) bind(s *scope) *function {
	params := make(tuple, len(m.params))
	for i, name := range m.params {
		params[i] = name
	}
	return &function{
		name: m.name,
		call: func(r *renderer, args arguments) (value, error) { return m.call(r, s, args) },
		attrs: map[string]value{
			"name": m.name, "arguments": params, "catch_varargs": m.usesVarargs, "catch_kwargs": m.usesKwargs, "caller": m.usesCaller,
		},
	}
}

func (m *macro) call(r *renderer, s *scope, args arguments) (value, error) {
	inner := s.child()
	for i, name := range m.params {
		if i < len(args.positional) {
			inner.set(name, args.positional[i])
			if args.keyword != nil {
				if _, twice := args.keyword.get(name); twice {
					return nil, failf("macro '%s' got multiple values for argument '%s'", m.name, name)
				}
			}
			continue
		}
		if args.keyword != nil {
			if v, ok := args.keyword.get(name); ok {
				inner.set(name, v)
				continue
			}
		}
		if d := i - (len(m.params) - len(m.defaults)); d >= 0 {
			v, err := m.defaults[d].eval(r, inner)
			if err != nil {
				return nil, err
			}
			inner.set(name, v)
			continue
		}
		inner.set(name, &undefined{"parameter '" + name + "' was not provided"})
	}
	if extra := args.positional[min(len(m.params), len(args.positional)):]; m.usesVarargs {
		inner.set("varargs", tuple(extra))
	} else if len(extra) > 0 {
		return nil, failf("macro '%s' takes not more than %d argument(s)", m.name, len(m.params))
	}
	if err := m.keywords(inner, args); err != nil {
		return nil, err
	}
	return r.capture(inner, m.body)
}

// keywords hands over the keyword arguments that are no parameters.
func (m *macro) keywords(inner *scope, args arguments) error {
	rest := newDict(0)
	var caller value
	hasCaller := false
	if args.keyword != nil {
		for i, k := range args.keyword.keys {
			name := str(k)
			switch {
			case slices.Contains(m.params, name):
			case name == "caller":
				caller, hasCaller = args.keyword.values[i], true
			default:
				rest.setString(name, args.keyword.values[i])
			}
		}
	}
	if m.usesCaller {
		if !hasCaller {
			caller = &undefined{"No caller defined"}
		}
		inner.set("caller", caller)
	} else if hasCaller {
		return failf("macro '%s' was invoked with two values for the special caller argument or takes no caller", m.name)
	}
	if m.usesKwargs {
		inner.set("kwargs", rest)
	} else if len(rest.keys) > 0 {
		return failf("macro '%s' takes no keyword argument %s", m.name, repr(rest.keys[0]))
	}
	return nil
}
