package reward

import (
	"math/big"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Number is a number as people and models write it.
type Number struct {
	Value   *big.Rat // exact; for a percentage already divided by 100
	Percent bool     // a percent sign followed
}

// Bounds that keep hostile answers cheap.
const (
	maxDigits   = 1000
	maxExponent = 400
)

// LastNumber returns the last number of a text, that of the last \boxed{…} where there is one. It reads signs, decimals, thousands
// separators (1,234 and their LaTeX and thin-space forms), scientific notation (1.5e3, 1.5 × 10^3), powers (10^6), fractions
// (3/4, \frac{3}{4}, ½), mixed numbers (1 1/2) and percentages. A comma never is a decimal point. Digits inside words (x2) are no
// numbers.
func LastNumber(text string) (n Number, ok bool) {
	if boxed, found := lastBoxed(text); found {
		if n, ok = lastNumber(boxed); ok {
			return n, ok
		}
	}
	return lastNumber(text)
}

func lastNumber(text string) (last Number, ok bool) {
	s := numberScanner{text: simplify(text)}
	for s.at < len(s.text) {
		if n, found := s.number(); found {
			last, ok = n, true
		}
	}
	return last, ok
}

// simplify brings the many ways of writing signs, spaces and fractions to one.
func simplify(text string) string {
	text = simplifier().Replace(width.Fold.String(text))
	if !strings.ContainsAny(text, superscripts) {
		return text
	}
	var out strings.Builder
	raised := false
	for _, r := range text {
		i := strings.IndexRune(superscripts, r)
		if i < 0 {
			raised = false
			out.WriteRune(r)
			continue
		}
		if !raised {
			out.WriteByte('^')
		}
		raised = true
		out.WriteByte("0123456789-"[utf8.RuneCountInString(superscripts[:i])])
	}
	return out.String()
}

const superscripts = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"

// simplifier is made once: that takes much longer than its use.
var simplifier = sync.OnceValue(func() *strings.Replacer {
	return strings.NewReplacer(
		"−", "-", "﹣", "-", `\left`, "", `\right`, "", `\dfrac`, `\frac`, `\tfrac`, `\frac`, `\cfrac`, `\frac`, `\%`, "%", `\$`, "$",
		"{,}", ",", `\,`, "\u2009", `\!`, "", `\;`, " ", `\ `, " ", "~", " ", "\u00a0", "\u2009", "\u202f", "\u2009",
		"×", "*", "·", "*", `\times`, "*", `\cdot`, "*", "⁄", "/",
		"½", " 1/2", "⅓", " 1/3", "⅔", " 2/3", "¼", " 1/4", "¾", " 3/4", "⅕", " 1/5", "⅛", " 1/8", "⅜", " 3/8", "⅝", " 5/8", "⅞", " 7/8",
	)
})

// numberScanner reads the numbers of a text one after the other.
type numberScanner struct {
	text string
	at   int
}

// number moves on by one number, or by one character where there is none.
func (s *numberScanner) number() (Number, bool) {
	start := s.at
	value, whole, ok := s.unsigned()
	if !ok {
		s.at = start
		_, size := utf8.DecodeRuneInString(s.text[s.at:])
		s.at += max(1, size)
		return Number{}, false
	}
	if s.embedded(start) {
		return Number{}, false
	}
	if whole {
		value = s.mixed(value)
	}
	if s.negative(start) {
		value.Neg(value)
	}
	n := Number{Value: value}
	rest := strings.TrimLeft(s.text[s.at:], " ")
	if strings.HasPrefix(rest, "%") {
		n.Percent = true
		n.Value.Quo(n.Value, big.NewRat(100, 1))
		s.at = len(s.text) - len(rest) + 1
	}
	return n, true
}

// unsigned reads a number without its sign; whole says that it was written with digits alone.
func (s *numberScanner) unsigned() (value *big.Rat, whole, ok bool) {
	if strings.HasPrefix(s.text[s.at:], `\frac`) {
		value, ok = s.latexFraction()
		return value, false, ok
	}
	divided := s.at > 0 && s.text[s.at-1] == '/' // the last part of a date is no fraction
	digits, whole, ok := s.decimal()
	if !ok {
		return nil, false, false
	}
	value, ok = new(big.Rat).SetString(digits)
	if !ok {
		return nil, false, false
	}
	if exponent, scaled := s.exponent(); scaled {
		return value.Mul(value, power(10, exponent)), false, true
	}
	if exponent, raised := s.raised(); raised {
		if base := value.Num(); value.IsInt() && base.IsInt64() && base.Int64() <= 1000 {
			return power(base.Int64(), exponent), false, true
		}
		return nil, false, false
	}
	if whole && !divided {
		if below, ok := s.denominator(); ok {
			return value.Quo(value, below), false, true
		}
	}
	return value, whole, true
}

// decimal reads digits with separators and a fraction part.
func (s *numberScanner) decimal() (digits string, whole, ok bool) {
	var out strings.Builder
	i := s.at
	for i < len(s.text) {
		c := s.text[i]
		if c >= '0' && c <= '9' {
			out.WriteByte(c)
			i++
			continue
		}
		size := separator(s.text[i:])
		if size == 0 || out.Len() == 0 || !groupOfThree(s.text[i+size:]) || leading(s.text[s.at:i]) > 3 {
			break
		}
		i += size
	}
	whole = true
	if i+1 < len(s.text) && s.text[i] == '.' && isDigit(s.text[i+1]) {
		if out.Len() == 0 {
			out.WriteByte('0')
		}
		whole = false
		out.WriteByte('.')
		for i++; i < len(s.text) && isDigit(s.text[i]); i++ {
			out.WriteByte(s.text[i])
		}
	}
	s.at = i
	return out.String(), whole, out.Len() > 0 && out.Len() <= maxDigits
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// separator returns the length of a thousands separator at the start of a text.
func separator(text string) int {
	for _, sep := range [...]string{",", "\u2009", "_", "'", "’"} {
		if strings.HasPrefix(text, sep) {
			return len(sep)
		}
	}
	return 0
}

// groupOfThree says whether a text begins with exactly three digits.
func groupOfThree(text string) bool {
	return len(text) >= 3 && isDigit(text[0]) && isDigit(text[1]) && isDigit(text[2]) && (len(text) == 3 || !isDigit(text[3]))
}

// leading counts the digits before the first separator.
func leading(text string) int {
	n := 0
	for n < len(text) && isDigit(text[n]) {
		n++
	}
	return n
}

// exponent reads e5, E-5, * 10^5 and * 10^{5}.
func (s *numberScanner) exponent() (int, bool) {
	rest := s.text[s.at:]
	if len(rest) > 1 && (rest[0] == 'e' || rest[0] == 'E') {
		if n, size, ok := integer(rest[1:]); ok {
			s.at += 1 + size
			return n, true
		}
		return 0, false
	}
	trimmed := strings.TrimLeft(rest, " \u2009")
	after, ok := strings.CutPrefix(trimmed, "*")
	if !ok {
		return 0, false
	}
	after, ok = strings.CutPrefix(strings.TrimLeft(after, " \u2009"), "10^")
	if !ok {
		return 0, false
	}
	n, size, ok := bracedInteger(after)
	if !ok {
		return 0, false
	}
	s.at = len(s.text) - len(after) + size
	return n, true
}

// raised reads ^5 and ^{5} directly behind a number.
func (s *numberScanner) raised() (int, bool) {
	after, ok := strings.CutPrefix(s.text[s.at:], "^")
	if !ok {
		return 0, false
	}
	n, size, ok := bracedInteger(after)
	if ok {
		s.at += 1 + size
	}
	return n, ok
}

func bracedInteger(text string) (n, size int, ok bool) {
	inner, isBraced := strings.CutPrefix(text, "{")
	if !isBraced {
		return integer(text)
	}
	n, size, ok = integer(inner)
	if !ok || !strings.HasPrefix(inner[size:], "}") {
		return 0, 0, false
	}
	return n, size + 2, true
}

// integer reads a small signed integer.
func integer(text string) (n, size int, ok bool) {
	i := 0
	if i < len(text) && (text[i] == '-' || text[i] == '+') {
		i++
	}
	first := i
	for ; i < len(text) && isDigit(text[i]); i++ {
		if n = n*10 + int(text[i]-'0'); n > maxExponent {
			return 0, 0, false
		}
	}
	if i == first {
		return 0, 0, false
	}
	if text[0] == '-' {
		n = -n
	}
	return n, i, true
}

func power(base int64, exponent int) *big.Rat {
	magnitude := exponent
	if magnitude < 0 {
		magnitude = -magnitude
	}
	p := new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(base), big.NewInt(int64(magnitude)), nil))
	if exponent < 0 {
		if p.Sign() == 0 {
			return p
		}
		p.Inv(p)
	}
	return p
}

// denominator reads "/ 4" behind a whole number.
func (s *numberScanner) denominator() (*big.Rat, bool) {
	after, ok := strings.CutPrefix(strings.TrimLeft(s.text[s.at:], " "), "/")
	if !ok {
		return nil, false
	}
	after = strings.TrimLeft(after, " ")
	n := leading(after)
	if n == 0 || n > maxDigits || len(after) > n && (after[n] == '/' || after[n] == '.' && len(after) > n+1 && isDigit(after[n+1])) {
		return nil, false // a date, or no whole number
	}
	below, ok := new(big.Rat).SetString(after[:n])
	if !ok || below.Sign() == 0 {
		return nil, false
	}
	s.at = len(s.text) - len(after) + n
	return below, true
}

// latexFraction reads \frac{3}{4} and \frac34.
func (s *numberScanner) latexFraction() (*big.Rat, bool) {
	rest := strings.TrimLeft(s.text[s.at+len(`\frac`):], " ")
	above, rest, ok := argument(rest)
	if !ok {
		return nil, false
	}
	below, rest, ok := argument(strings.TrimLeft(rest, " "))
	if !ok || below.Sign() == 0 {
		return nil, false
	}
	s.at = len(s.text) - len(rest)
	return above.Quo(above, below), true
}

// argument reads one argument of a LaTeX command that is a number, with its sign.
func argument(text string) (value *big.Rat, rest string, ok bool) {
	if text == "" {
		return nil, "", false
	}
	if isDigit(text[0]) {
		return big.NewRat(int64(text[0]-'0'), 1), text[1:], true
	}
	content, ok := braced(text)
	if !ok || len(content) > maxDigits {
		return nil, "", false
	}
	inner := strings.TrimSpace(content)
	unsigned, negative := strings.CutPrefix(inner, "-")
	s := numberScanner{text: unsigned}
	digits, _, ok := s.decimal()
	if !ok || s.at != len(unsigned) {
		return nil, "", false
	}
	if value, ok = new(big.Rat).SetString(digits); !ok {
		return nil, "", false
	}
	if negative {
		value.Neg(value)
	}
	return value, text[len(content)+2:], true
}

// mixed adds the fraction that follows a whole number: "1 1/2", `1\frac{1}{2}`.
func (s *numberScanner) mixed(value *big.Rat) *big.Rat {
	rest := s.text[s.at:]
	next := numberScanner{text: s.text, at: s.at}
	if strings.HasPrefix(rest, " ") {
		next.at++
	}
	isFraction := strings.HasPrefix(s.text[next.at:], `\frac`)
	if !isFraction && (next.at == s.at || next.at >= len(s.text) || !isDigit(s.text[next.at])) {
		return value
	}
	fraction, whole, ok := next.unsigned()
	if !ok || whole || fraction.Sign() <= 0 || fraction.Cmp(big.NewRat(1, 1)) >= 0 || !isFraction && !strings.Contains(s.text[s.at:next.at], "/") {
		return value
	}
	s.at = next.at
	return new(big.Rat).Add(value, fraction)
}

// embedded says whether the number at start is part of a word or the exponent of something.
func (s *numberScanner) embedded(start int) bool {
	r, _ := utf8.DecodeLastRuneInString(s.text[:start])
	return start > 0 && (unicode.IsLetter(r) && !afterCommand(s.text[:start]) || r == '_' || r == '^' || r == '.' && start > 1 && isDigit(s.text[start-2]) || s.text[start] == '.' && unicode.IsDigit(r))
}

// afterCommand says whether a text ends with a LaTeX command or a unit of currency, which may touch a number.
func afterCommand(text string) bool {
	word := strings.TrimRightFunc(text, unicode.IsLetter)
	return strings.HasSuffix(word, `\`)
}

// negative says whether a minus sign that is no operator stands before the number at start, also before a currency.
func (s *numberScanner) negative(start int) bool {
	before := strings.TrimRightFunc(s.text[:start], func(r rune) bool { return unicode.Is(unicode.Sc, r) })
	before, minus := strings.CutSuffix(before, "-")
	if !minus {
		return false
	}
	if before == "" {
		return true
	}
	r, _ := utf8.DecodeLastRuneInString(before)
	return !unicode.IsDigit(r) && !unicode.IsLetter(r) && r != ')' && r != ']' && r != '-'
}

// Tolerance says how far apart numbers may be that count as equal.
type Tolerance struct{ Absolute, Relative float64 }

// equalNumbers compares an answer with a reference. Without a percent sign at one of the two, the number before the sign is
// compared too when the reference is the one without, because questions often name the unit; and a reference in percent
// accepts the bare number.
func equalNumbers(answer, reference Number, t Tolerance) bool {
	if within(answer.Value, reference.Value, t) {
		return true
	}
	if answer.Percent == reference.Percent {
		return false
	}
	hundred := big.NewRat(100, 1)
	a, b := answer.Value, reference.Value
	if answer.Percent {
		a = new(big.Rat).Mul(a, hundred)
	} else {
		b = new(big.Rat).Mul(b, hundred)
	}
	return within(a, b, t)
}

func within(a, b *big.Rat, t Tolerance) bool {
	difference := new(big.Rat).Sub(a, b)
	difference.Abs(difference)
	allowed := new(big.Rat)
	if relative, ok := exact(t.Relative); ok {
		allowed.Mul(relative, new(big.Rat).Abs(b))
	}
	if absolute, ok := exact(t.Absolute); ok && absolute.Cmp(allowed) > 0 {
		allowed = absolute
	}
	return difference.Cmp(allowed) <= 0
}

// exact returns the decimal number that a float was written as: 0.1 is a tenth.
func exact(f float64) (*big.Rat, bool) {
	return new(big.Rat).SetString(formatFloat(f))
}
