package oniguruma

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hermes-env/hermes-env/agentloop/tokenizer/ucd"
)

var anything = ucd.Set{0, ucd.End}

// The library takes six more characters for word characters outside of classes: its
// table of the first 256 characters is older than the rest.
var latinWord = ucd.Union(ucd.Range('²', '³'), ucd.Range('¹', '¹'), ucd.Range('¼', '¾'))

// classWord is \w within a class.
var classWord = sync.OnceValue(func() ucd.Set {
	return ucd.Union(ucd.Alphabetic(), category("M"), category("Nd"), category("Pc"))
})

// word is \w outside of classes, and what \b goes by.
var word = sync.OnceValue(func() ucd.Set { return ucd.Union(classWord(), latinWord) })

func category(name string) ucd.Set {
	set, _ := ucd.Category(name)
	return set
}

// named returns the properties whose names are not those of categories or scripts.
func named(name string) ucd.Set {
	switch name {
	case "alnum":
		return ucd.Union(ucd.Alphabetic(), category("Nd"))
	case "alpha", "alphabetic":
		return ucd.Alphabetic()
	case "blank":
		return ucd.Union(category("Zs"), ucd.Range('\t', '\t'))
	case "cntrl":
		return category("Cc")
	case "digit":
		return category("Nd")
	case "graph":
		return ucd.Union(ucd.WhiteSpace(), category("Cc"), category("Cn"), category("Cs")).Negate()
	case "lower", "lowercase":
		return ucd.Lowercase()
	case "print":
		return ucd.Union(named("graph"), category("Zs"))
	case "punct": // \p{Punct}; the POSIX bracket has symbols too
		return category("P")
	case "space", "whitespace":
		return ucd.WhiteSpace()
	case "upper", "uppercase":
		return ucd.Uppercase()
	case "xdigit":
		return ucd.Union(ucd.Range('0', '9'), ucd.Range('A', 'F'), ucd.Range('a', 'f'))
	case "word":
		return classWord()
	case "ascii":
		return ucd.Range(0, 0x7F)
	case "any":
		return anything
	case "assigned":
		return category("Cn").Negate()
	}
	return nil
}

// The long names of categories, by their loose forms.
var categoryNames = map[string]string{
	"letter": "L", "casedletter": "LC", "uppercaseletter": "Lu", "lowercaseletter": "Ll", "titlecaseletter": "Lt", "modifierletter": "Lm", "otherletter": "Lo",
	"mark": "M", "combiningmark": "M", "nonspacingmark": "Mn", "spacingmark": "Mc", "enclosingmark": "Me",
	"number": "N", "decimalnumber": "Nd", "letternumber": "Nl", "othernumber": "No",
	"punctuation": "P", "connectorpunctuation": "Pc", "dashpunctuation": "Pd", "openpunctuation": "Ps", "closepunctuation": "Pe",
	"initialpunctuation": "Pi", "finalpunctuation": "Pf", "otherpunctuation": "Po",
	"symbol": "S", "mathsymbol": "Sm", "currencysymbol": "Sc", "modifiersymbol": "Sk", "othersymbol": "So",
	"separator": "Z", "spaceseparator": "Zs", "lineseparator": "Zl", "paragraphseparator": "Zp",
	"other": "C", "control": "Cc", "format": "Cf", "surrogate": "Cs", "privateuse": "Co", "unassigned": "Cn",
}

// property parses \p{…}, \P{…} and \p{^…}. It returns nil when no brace follows.
func (p *parser) property() (set ucd.Set, isWord bool, err error) {
	negative := p.pattern[p.at+1] == 'P'
	rest := p.pattern[p.at+2:]
	if !strings.HasPrefix(rest, "{") {
		return nil, false, nil
	}
	name, _, closed := strings.Cut(rest[1:], "}")
	if !closed {
		return nil, false, p.invalid(`\p{ without }`)
	}
	length := 2 + 1 + len(name) + 1
	if trimmed, ok := strings.CutPrefix(name, "^"); ok {
		name, negative = trimmed, !negative
	}
	set, ok := property(name)
	if !ok {
		return nil, false, p.unsupported("the property " + name)
	}
	p.at += length
	if negative {
		set = set.Negate()
	}
	return set, !negative && ucd.Loose(name) == "word", nil
}

func property(name string) (ucd.Set, bool) {
	loose := ucd.Loose(name)
	if set := named(loose); set != nil {
		return set, true
	}
	short, long := categoryNames[loose]
	if !long && len(loose) > 0 && len(loose) <= 2 {
		short = strings.ToUpper(loose[:1]) + loose[1:]
		if loose == "lc" {
			short = "LC"
		}
	}
	if set, ok := ucd.Category(short); ok {
		return set, true
	}
	return ucd.Script(loose)
}

// classEscape parses \d, \s, \h and their opposites, which mean the same in a class
// and outside. It returns nil for any other escape.
func (p *parser) classEscape() ucd.Set {
	var set ucd.Set
	c := p.pattern[p.at+1]
	switch c | 0x20 {
	case 'd':
		set = category("Nd")
	case 's':
		set = ucd.WhiteSpace()
	case 'h':
		set = named("xdigit")
	default:
		return nil
	}
	p.at += 2
	if c < 'a' {
		set = set.Negate()
	}
	return set
}

// class parses a class after its opening bracket, and folds it when case is ignored.
func (p *parser) class() (ucd.Set, error) {
	set, negative, err := p.bracket()
	if err != nil {
		return nil, err
	}
	if p.flags.fold {
		if !negative && len(ucd.Intersect(set, ucd.Expanding())) > 0 {
			return nil, p.unsupported("ignoring the case of a class with characters that fold to several")
		}
		set = foldSet(set)
	}
	if negative {
		set = set.Negate()
	}
	return set, nil
}

// bracket parses a class after its opening bracket to its end.
func (p *parser) bracket() (out ucd.Set, negative bool, err error) {
	if p.depth++; p.depth > maxDepth {
		return nil, false, p.unsupported(fmt.Sprintf("a nesting of more than %d classes", maxDepth))
	}
	defer func() { p.depth-- }()
	negative = p.accept("^")
	c := &classParser{parser: p, last: -1}
	if strings.HasPrefix(p.pattern[p.at:], "]") {
		if !strings.Contains(p.pattern[p.at+1:], "]") {
			return nil, false, p.invalid("an empty class")
		}
		p.at++
		c.char(']')
	}
	for {
		if !p.more() {
			return nil, false, p.invalid("a class without ]")
		}
		switch {
		case p.accept("]"):
			return c.end(), negative, nil
		case p.accept("&&"):
			c.and()
		case p.accept("-"):
			err = c.minus()
		case p.accept("[:"):
			err = c.posix()
		case p.accept("["):
			err = c.nested()
		case strings.HasPrefix(p.pattern[p.at:], `\`):
			err = c.escape()
		default:
			err = c.char(p.rune())
		}
		if err != nil {
			return nil, false, err
		}
	}
}

var posixNames = strings.Fields("alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit")

// classParser puts the parts of one class together.
type classParser struct {
	*parser
	done   ucd.Set // the sides of && before this one, intersected
	anded  bool
	sets   []ucd.Set // of this side
	last   rune      // the last part if it is a character that may begin a range, else -1
	from   rune      // of a range that has no end yet
	ranged bool      // from is set
	prop   bool      // the last part was a set
}

func (c *classParser) add(s ucd.Set) { c.sets = append(c.sets, s) }

func (c *classParser) char(r rune) error {
	if c.ranged {
		if c.from > r {
			return c.invalid("a range whose end comes before its start")
		}
		c.add(ucd.Range(c.from, r))
		c.ranged, c.last, c.prop = false, -1, false
		return nil
	}
	c.add(ucd.Range(r, r))
	c.last, c.prop = r, false
	return nil
}

func (c *classParser) set(s ucd.Set) error {
	if c.ranged {
		return c.invalid("a range that ends with a set")
	}
	c.add(s)
	c.last, c.prop = -1, true
	return nil
}

// minus is a range between two characters, and a character everywhere else.
func (c *classParser) minus() error {
	rest := c.pattern[c.at:]
	switch {
	case c.ranged, len(c.sets) == 0, strings.HasPrefix(rest, "]"), strings.HasPrefix(rest, "&&"):
		return c.char('-')
	case c.prop:
		return c.invalid("a range that starts with a set")
	case c.last < 0: // after a range
		return c.char('-')
	}
	c.from, c.ranged = c.last, true
	return nil
}

func (c *classParser) posix() error {
	rest := c.pattern[c.at:]
	name, _, closed := strings.Cut(rest, ":]")
	if !closed || strings.ContainsAny(name, `[]\`) || len(name) > 10 {
		return c.unsupported("a nested class that begins with a colon")
	}
	c.at += len(name) + 2
	plain, negative := strings.CutPrefix(name, "^")
	if !slices.Contains(posixNames, plain) {
		return c.invalid("the unknown class [:" + name + ":]")
	}
	set := named(plain)
	if plain == "punct" {
		set = ucd.Union(set, category("S"))
	}
	if negative {
		set = set.Negate()
	}
	return c.set(set)
}

func (c *classParser) nested() error {
	if c.ranged {
		return c.unsupported("a range that ends with a class")
	}
	set, negative, err := c.bracket()
	if negative {
		set = set.Negate()
	}
	c.add(set)
	c.last, c.prop = -1, false
	return err
}

func (c *classParser) escape() error {
	if c.at+1 >= len(c.pattern) {
		return c.invalid("a backslash at the end")
	}
	switch c.pattern[c.at+1] {
	case 'w':
		c.at += 2
		return c.set(classWord())
	case 'W':
		c.at += 2
		return c.set(classWord().Negate())
	case 'b':
		c.at += 2
		return c.char('\b')
	case '1', '2', '3', '4', '5', '6', '7':
		return c.unsupported("an octal number without a leading zero")
	case 'p', 'P':
		if set, _, err := c.property(); set != nil || err != nil {
			if err != nil {
				return err
			}
			return c.set(set)
		}
	}
	if set := c.classEscape(); set != nil {
		return c.set(set)
	}
	r, err := c.escapedRune()
	if err != nil {
		return err
	}
	return c.char(r)
}

func (c *classParser) and() {
	c.done, c.anded = c.end(), true
	c.sets, c.last, c.ranged, c.prop = nil, -1, false, false
}

// end returns the set of everything so far.
func (c *classParser) end() ucd.Set {
	side := ucd.Union(c.sets...)
	if c.anded {
		return ucd.Intersect(c.done, side)
	}
	return side
}

// foldSet adds the characters that differ from those of the set in case only.
func foldSet(s ucd.Set) ucd.Set {
	var more []ucd.Set
	orbit := func(folded rune) {
		all := append([]rune{folded}, ucd.Unfold(folded)...)
		in := 0
		for _, r := range all {
			if s.Contains(r) {
				in++
			}
		}
		if in > 0 && in < len(all) {
			for _, r := range all {
				more = append(more, ucd.Range(r, r))
			}
		}
	}
	if len(s) == 2 && s[1] == s[0]+1 {
		orbit(ucd.Fold(s[0]))
	} else {
		for folded := range ucd.Folded() {
			orbit(folded)
		}
	}
	if more == nil {
		return s
	}
	return ucd.Union(append(more, s)...)
}
