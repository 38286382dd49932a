package chattemplate

import "fmt"

// bind matches a call's arguments with parameters: names in order, of which the
// first required ones must be given. What isn't given is absent from the result.
func (a arguments) bind(required int, names ...string) ([]value, []bool, error) {
	values, given := make([]value, len(names)), make([]bool, len(names))
	if len(a.positional) > len(names) {
		return nil, nil, failf("takes at most %d argument(s), %d given", len(names), len(a.positional))
	}
	for i, v := range a.positional {
		values[i], given[i] = v, true
	}
	if a.keyword != nil {
		for i, k := range a.keyword.keys {
			at := -1
			for j, name := range names {
				if name == str(k) {
					at = j
				}
			}
			if at < 0 {
				return nil, nil, failf("got an unexpected keyword argument '%s'", str(k))
			}
			if given[at] {
				return nil, nil, failf("got multiple values for argument '%s'", names[at])
			}
			values[at], given[at] = a.keyword.values[i], true
		}
	}
	for i := range required {
		if !given[i] {
			return nil, nil, failf("missing argument '%s'", names[i])
		}
	}
	return values, given, nil
}

// none refuses arguments.
func (a arguments) none() error {
	_, _, err := a.bind(0)
	return err
}

// params reads bound arguments with defaults, keeping the first failure.
type params struct {
	values []value
	given  []bool
	err    error
}

func (a arguments) params(required int, names ...string) *params {
	values, given, err := a.bind(required, names...)
	if err != nil {
		return &params{values: make([]value, len(names)), given: make([]bool, len(names)), err: err}
	}
	return &params{values: values, given: given}
}

func (p *params) fail(format string, args ...any) {
	if p.err == nil {
		p.err = failf("%s", fmt.Sprintf(format, args...))
	}
}

func (p *params) text(i int, otherwise string) string {
	if !p.given[i] {
		return otherwise
	}
	s, ok := text(p.values[i])
	if !ok {
		p.fail("argument %d must be str, not %s", i+1, typeName(p.values[i]))
	}
	return s
}

// optionalText is text where None means that none was given.
func (p *params) optionalText(i int) (string, bool) {
	if !p.given[i] || p.values[i] == nil {
		return "", false
	}
	return p.text(i, ""), true
}

func (p *params) int(i int, otherwise int64) int64 {
	if !p.given[i] {
		return otherwise
	}
	n, ok := number(p.values[i])
	whole, isInt := n.(int64)
	if !ok || !isInt {
		p.fail("argument %d must be an integer, not %s", i+1, typeName(p.values[i]))
	}
	return whole
}

func (p *params) bool(i int, otherwise bool) bool {
	if !p.given[i] {
		return otherwise
	}
	ok, err := truth(p.values[i])
	if err != nil && p.err == nil {
		p.err = err
	}
	return ok
}

func (p *params) value(i int, otherwise value) value {
	if !p.given[i] {
		return otherwise
	}
	return p.values[i]
}
