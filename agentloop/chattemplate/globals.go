package chattemplate

import (
	"strings"
	"time"
)

// globals are the names every template has. They hold no state.
var globals = map[string]value{
	"range":           &function{name: "range", call: globalRange},
	"dict":            &function{name: "dict", call: globalDict},
	"namespace":       &function{name: "namespace", call: globalNamespace},
	"joiner":          &function{name: "joiner", call: globalJoiner},
	"cycler":          &function{name: "cycler", call: globalCycler},
	"raise_exception": &function{name: "raise_exception", call: raiseException},
	"strftime_now":    &function{name: "strftime_now", call: strftimeNow},
}

// maxRange is the limit of Jinja2's sandbox.
const maxRange = 100_000

func globalRange(_ *renderer, args arguments) (value, error) {
	if args.keyword != nil {
		return nil, failf("range() takes no keyword arguments")
	}
	p := args.params(1, "start", "stop", "step")
	s := span{stop: p.int(0, 0), step: 1}
	if p.given[1] {
		s = span{start: p.int(0, 0), stop: p.int(1, 0), step: p.int(2, 1)}
	}
	if p.err != nil {
		return nil, p.err
	}
	if s.step == 0 {
		return nil, failf("range() arg 3 must not be zero")
	}
	if s.len() > maxRange {
		return nil, failf("Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).", maxRange)
	}
	return s, nil
}

func copyPairs(into *dict, from value) error {
	if d, ok := from.(*dict); ok {
		for i, k := range d.keys {
			if err := into.set(k, d.values[i]); err != nil {
				return err
			}
		}
		return nil
	}
	all, err := items(from)
	if err != nil {
		return err
	}
	for _, item := range all {
		two, err := items(item)
		if err != nil || len(two) != 2 {
			return failf("dictionary update sequence elements must have length 2")
		}
		if err := into.set(two[0], two[1]); err != nil {
			return err
		}
	}
	return nil
}

func newDictOf(args arguments) (*dict, error) {
	d := newDict(0)
	if len(args.positional) > 1 {
		return nil, failf("expected at most 1 argument, got %d", len(args.positional))
	}
	for _, from := range args.positional {
		if err := copyPairs(d, from); err != nil {
			return nil, err
		}
	}
	if args.keyword != nil {
		if err := copyPairs(d, args.keyword); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func globalDict(_ *renderer, args arguments) (value, error) {
	d, err := newDictOf(args)
	if err != nil {
		return nil, err
	}
	return d, nil
}

func globalNamespace(_ *renderer, args arguments) (value, error) {
	d, err := newDictOf(args)
	if err != nil {
		return nil, err
	}
	return &namespace{attrs: d}, nil
}

// joiner() returns a function that gives a separator from its second call on.
func globalJoiner(_ *renderer, args arguments) (value, error) {
	p := args.params(0, "sep")
	sep, used := p.text(0, ", "), false
	return &function{name: "joiner", call: func(*renderer, arguments) (value, error) {
		if !used {
			used = true
			return "", nil
		}
		return sep, nil
	}}, p.err
}

func globalCycler(_ *renderer, args arguments) (value, error) {
	if len(args.positional) == 0 {
		return nil, failf("at least one item has to be provided")
	}
	at := 0
	c := &function{name: "cycler", attrs: map[string]value{}}
	c.attrs["next"] = &function{name: "next", call: func(*renderer, arguments) (value, error) {
		v := args.positional[at]
		at = (at + 1) % len(args.positional)
		c.attrs["current"] = args.positional[at]
		return v, nil
	}}
	c.attrs["reset"] = &function{name: "reset", call: func(*renderer, arguments) (value, error) {
		at = 0
		c.attrs["current"] = args.positional[0]
		return nil, nil
	}}
	c.attrs["current"] = args.positional[0]
	c.call = func(*renderer, arguments) (value, error) { return nil, failf("'Cycler' object is not callable") }
	return c, nil
}

func raiseException(_ *renderer, args arguments) (value, error) {
	p := args.params(1, "message")
	if p.err != nil {
		return nil, p.err
	}
	return nil, &RaisedError{Message: str(p.values[0])}
}

func strftimeNow(r *renderer, args arguments) (value, error) {
	p := args.params(1, "format")
	format := p.text(0, "")
	if p.err != nil {
		return nil, p.err
	}
	return strftime(r.now, format)
}

// strftime writes the directives of C's strftime that dates are written with.
func strftime(t time.Time, format string) (string, error) {
	layouts := map[byte]string{
		'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'd': "02", 'm': "01", 'y': "06", 'Y': "2006", 'H': "15", 'I': "03",
		'M': "04", 'S': "05", 'p': "PM", 'Z': "MST", 'z': "-0700", 'j': "002", 'e': "_2", 'h': "Jan", 'D': "01/02/06", 'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04",
	}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		unpadded := false
		if format[i] == '-' && i+1 < len(format) {
			unpadded = true
			i++
		}
		switch layout := layouts[format[i]]; {
		case format[i] == '%':
			b.WriteByte('%')
		case layout == "":
			return "", failf("strftime_now doesn't know the directive %%%c", format[i])
		case unpadded:
			b.WriteString(strings.TrimLeft(t.Format(layout), "0 "))
		default:
			b.WriteString(t.Format(layout))
		}
	}
	return b.String(), nil
}
