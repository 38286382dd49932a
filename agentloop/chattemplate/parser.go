package chattemplate

import (
	"fmt"
	"slices"
	"strconv"
)

// Nesting that a template may have; templates are foreign code and parsing recurses.
const deepestNesting = 150

// parser builds statements by the grammar of Jinja2.
type parser struct {
	name   string
	tokens []token
	at     int
	depth  int
	loops  int
	macros []*macro // being parsed, innermost last
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != tokEnd {
		p.at++
	}
	return t
}

func (p *parser) fail(format string, args ...any) error {
	return &SyntaxError{Name: p.name, Line: p.peek().line, Msg: fmt.Sprintf(format, args...)}
}

func (p *parser) isOp(op string) bool {
	t := p.peek()
	return t.kind == tokOperator && t.text == op
}

func (p *parser) isName(names ...string) bool {
	t := p.peek()
	return t.kind == tokName && slices.Contains(names, t.text)
}

func (p *parser) skipOp(op string) bool {
	if p.isOp(op) {
		p.at++
		return true
	}
	return false
}

func (p *parser) skipName(name string) bool {
	if p.isName(name) {
		p.at++
		return true
	}
	return false
}

func (p *parser) expectOp(op string) error {
	if !p.skipOp(op) {
		return p.fail("expected '%s', got %s", op, p.describe())
	}
	return nil
}

func (p *parser) expectName() (string, error) {
	if p.peek().kind != tokName {
		return "", p.fail("expected a name, got %s", p.describe())
	}
	return p.next().text, nil
}

func (p *parser) describe() string {
	switch t := p.peek(); t.kind {
	case tokEnd:
		return "the end of the template"
	case tokData:
		return "text"
	case tokBlockBegin:
		return "'{%'"
	case tokBlockEnd:
		return "'%}'"
	case tokVariableBegin:
		return "'{{'"
	case tokVariableEnd:
		return "'}}'"
	case tokString:
		return strconv.Quote(t.text)
	default:
		return "'" + t.text + "'"
	}
}

func (p *parser) enter() error {
	p.depth++
	if p.depth > deepestNesting {
		return p.fail("nested deeper than %d", deepestNesting)
	}
	return nil
}

func (p *parser) leave() { p.depth-- }

// body parses up to a statement with one of the names in ends, which it leaves as
// the next token; without ends, up to the end of the template.
func (p *parser) body(ends ...string) ([]stmt, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	var out []stmt
	for {
		switch t := p.peek(); t.kind {
		case tokEnd:
			if len(ends) > 0 {
				return nil, p.fail("unexpected end of template, looking for %v", ends)
			}
			return out, nil
		case tokData:
			p.at++
			out = append(out, &textStmt{t.text})
		case tokVariableBegin:
			p.at++
			e, err := p.tuple(true, nil)
			if err != nil {
				return nil, err
			}
			if p.peek().kind != tokVariableEnd {
				return nil, p.fail("expected '}}', got %s", p.describe())
			}
			p.at++
			out = append(out, &outputStmt{e})
		case tokBlockBegin:
			p.at++
			if len(ends) > 0 && p.isName(ends...) {
				return out, nil
			}
			s, err := p.statement()
			if err != nil {
				return nil, err
			}
			out = append(out, s)
			if err := p.blockEnd(); err != nil {
				return nil, err
			}
		default:
			return nil, p.fail("unexpected %s", p.describe())
		}
	}
}

func (p *parser) blockEnd() error {
	if p.peek().kind != tokBlockEnd {
		return p.fail("expected '%%}', got %s", p.describe())
	}
	p.at++
	return nil
}

// bodyUntil parses the rest of the opening tag's end, a body and its closing name.
func (p *parser) bodyUntil(end string) ([]stmt, error) {
	if err := p.blockEnd(); err != nil {
		return nil, err
	}
	body, err := p.body(end)
	if err != nil {
		return nil, err
	}
	p.at++
	return body, nil
}

func (p *parser) statement() (stmt, error) {
	if p.peek().kind != tokName {
		return nil, p.fail("tag name expected, got %s", p.describe())
	}
	line := p.peek().line
	tag := p.next().text
	switch tag {
	case "if":
		return p.ifStatement()
	case "for":
		return p.forStatement()
	case "set":
		return p.setStatement()
	case "macro":
		return p.macroStatement()
	case "call":
		return p.callStatement()
	case "filter":
		return p.filterStatement()
	case "with":
		return p.withStatement()
	case "generation":
		body, err := p.bodyUntil("endgeneration")
		return &generationStmt{body}, err
	case "block":
		return p.blockStatement()
	case "print":
		e, err := p.tuple(true, nil)
		return &outputStmt{e}, err
	case "break", "continue":
		if p.loops == 0 {
			return nil, p.fail("'%s' outside a loop", tag)
		}
		if tag == "break" {
			return breakStmt{}, nil
		}
		return continueStmt{}, nil
	case "autoescape":
		return p.autoescapeStatement(line)
	case "include", "import", "from", "extends":
		for p.peek().kind != tokBlockEnd && p.peek().kind != tokEnd {
			p.at++
		}
		return &unavailableStmt{tag, line}, nil
	case "do", "trans", "debug":
		return nil, p.fail("the statement '%s' is not available in chat templates", tag)
	}
	return nil, p.fail("encountered unknown tag '%s'", tag)
}

func (p *parser) ifStatement() (stmt, error) {
	s := &ifStmt{}
	for {
		test, err := p.tuple(false, nil)
		if err != nil {
			return nil, err
		}
		if err := p.blockEnd(); err != nil {
			return nil, err
		}
		body, err := p.body("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		s.tests, s.bodies = append(s.tests, test), append(s.bodies, body)
		switch p.next().text {
		case "elif":
			continue
		case "else":
			s.otherwise, err = p.bodyUntil("endif")
		}
		return s, err
	}
}

func (p *parser) forStatement() (stmt, error) {
	s := &forStmt{}
	var err error
	if s.target, err = p.assignTarget(false); err != nil {
		return nil, err
	}
	if !p.skipName("in") {
		return nil, p.fail("expected 'in', got %s", p.describe())
	}
	if s.over, err = p.tuple(false, []string{"recursive"}); err != nil {
		return nil, err
	}
	if p.skipName("if") {
		if s.test, err = p.expression(); err != nil {
			return nil, err
		}
	}
	s.recursive = p.skipName("recursive")
	if err := p.blockEnd(); err != nil {
		return nil, err
	}
	p.loops++
	s.body, err = p.body("endfor", "else")
	p.loops--
	if err != nil {
		return nil, err
	}
	if p.next().text == "else" {
		s.otherwise, err = p.bodyUntil("endfor")
	}
	return s, err
}

func (p *parser) setStatement() (stmt, error) {
	t, err := p.assignTarget(true)
	if err != nil {
		return nil, err
	}
	if p.skipOp("=") {
		e, err := p.tuple(true, nil)
		return &setStmt{t, e}, err
	}
	filters, err := p.filterChain(false)
	if err != nil {
		return nil, err
	}
	body, err := p.bodyUntil("endset")
	return &setBlockStmt{t, filters, body}, err
}

// filterChain parses filters that apply to a block: first | second.
func (p *parser) filterChain(first bool) ([]*filterExpr, error) {
	var out []*filterExpr
	for first || p.skipOp("|") {
		first = false
		f, err := p.filter(nil)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

func (p *parser) signature(m *macro) error {
	if err := p.expectOp("("); err != nil {
		return err
	}
	for !p.isOp(")") {
		if len(m.params) > 0 {
			if err := p.expectOp(","); err != nil {
				return err
			}
			if p.isOp(")") {
				break
			}
		}
		name, err := p.expectName()
		if err != nil {
			return err
		}
		m.params = append(m.params, name)
		if p.skipOp("=") {
			e, err := p.expression()
			if err != nil {
				return err
			}
			m.defaults = append(m.defaults, e)
		} else if len(m.defaults) > 0 {
			return p.fail("non-default argument follows default argument")
		}
	}
	return p.expectOp(")")
}

func (p *parser) macroBody(m *macro, end string) error {
	p.macros = append(p.macros, m)
	loops := p.loops
	p.loops = 0
	body, err := p.bodyUntil(end)
	p.loops = loops
	p.macros = p.macros[:len(p.macros)-1]
	m.body = body
	return err
}

func (p *parser) macroStatement() (stmt, error) {
	name, err := p.expectName()
	if err != nil {
		return nil, err
	}
	m := &macro{name: name}
	if err := p.signature(m); err != nil {
		return nil, err
	}
	return &macroStmt{m}, p.macroBody(m, "endmacro")
}

func (p *parser) callStatement() (stmt, error) {
	m := &macro{name: "caller"}
	if p.isOp("(") {
		if err := p.signature(m); err != nil {
			return nil, err
		}
	}
	e, err := p.expression()
	if err != nil {
		return nil, err
	}
	call, ok := e.(*callExpr)
	if !ok {
		return nil, p.fail("expected call")
	}
	return &callStmt{call, m}, p.macroBody(m, "endcall")
}

func (p *parser) filterStatement() (stmt, error) {
	filters, err := p.filterChain(true)
	if err != nil {
		return nil, err
	}
	body, err := p.bodyUntil("endfilter")
	return &filterStmt{filters, body}, err
}

func (p *parser) withStatement() (stmt, error) {
	s := &withStmt{}
	for p.peek().kind != tokBlockEnd {
		if len(s.targets) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
		}
		t, err := p.assignTarget(false)
		if err != nil {
			return nil, err
		}
		if err := p.expectOp("="); err != nil {
			return nil, err
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		s.targets, s.values = append(s.targets, t), append(s.values, e)
	}
	var err error
	s.body, err = p.bodyUntil("endwith")
	return s, err
}

func (p *parser) autoescapeStatement(line int) (stmt, error) {
	on, err := p.expression()
	if err != nil {
		return nil, err
	}
	body, err := p.bodyUntil("endautoescape")
	return &autoescapeStmt{on, line, body}, err
}

func (p *parser) blockStatement() (stmt, error) {
	name, err := p.expectName()
	if err != nil {
		return nil, err
	}
	if err := p.blockEnd(); err != nil {
		return nil, err
	}
	body, err := p.body("endblock")
	if err != nil {
		return nil, err
	}
	p.at++
	p.skipName(name)
	return &scopeStmt{body}, nil
}

// assignTarget parses a, (a, b), a, b and, where allowed, ns.attr.
func (p *parser) assignTarget(withNamespace bool) (target, error) {
	one := func() (target, error) {
		if p.skipOp("(") {
			t, err := p.assignTarget(false)
			if err != nil {
				return t, err
			}
			if t.parts == nil {
				t = target{parts: []target{t}}
			}
			return t, p.expectOp(")")
		}
		name, err := p.expectName()
		if err != nil {
			return target{}, err
		}
		if reserved(name) {
			return target{}, p.fail("can't assign to '%s'", name)
		}
		if withNamespace && p.skipOp(".") {
			attr, err := p.expectName()
			return target{name: name, attr: attr}, err
		}
		return target{name: name}, nil
	}
	first, err := one()
	if err != nil || !p.isOp(",") {
		return first, err
	}
	parts := []target{first}
	for p.skipOp(",") {
		if p.isName("in") || p.isOp("=") || p.isOp(")") {
			break
		}
		t, err := one()
		if err != nil {
			return t, err
		}
		parts = append(parts, t)
	}
	return target{parts: parts}, nil
}

func reserved(name string) bool {
	switch name {
	case "true", "false", "none", "True", "False", "None", "loop":
		return true
	}
	return false
}
