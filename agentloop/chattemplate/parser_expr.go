package chattemplate

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// tuple parses one expression or, with commas, a tuple of several.
func (p *parser) tuple(withCondition bool, endNames []string) (expr, error) {
	parse := p.expression
	if !withCondition {
		parse = p.or
	}
	var items []expr
	isTuple := false
	for {
		if len(items) > 0 || isTuple {
			if p.tupleEnds(endNames) {
				break
			}
		} else if p.tupleEnds(endNames) {
			return nil, p.fail("expected an expression, got %s", p.describe())
		}
		e, err := parse()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
		if !p.skipOp(",") {
			break
		}
		isTuple = true
	}
	if !isTuple {
		return items[0], nil
	}
	return &tupleExpr{items}, nil
}

func (p *parser) tupleEnds(names []string) bool {
	switch p.peek().kind {
	case tokVariableEnd, tokBlockEnd:
		return true
	}
	return p.isOp(")") || len(names) > 0 && p.isName(names...)
}

func (p *parser) expression() (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	e, err := p.or()
	for err == nil && p.skipName("if") {
		var test, otherwise expr
		if test, err = p.or(); err != nil {
			return nil, err
		}
		if p.skipName("else") {
			if otherwise, err = p.expression(); err != nil {
				return nil, err
			}
		}
		e = &ifExpr{test, e, otherwise}
	}
	return e, err
}

func (p *parser) or() (expr, error) {
	left, err := p.and()
	for err == nil && p.skipName("or") {
		var right expr
		right, err = p.and()
		left = &orExpr{left, right}
	}
	return left, err
}

func (p *parser) and() (expr, error) {
	left, err := p.not()
	for err == nil && p.skipName("and") {
		var right expr
		right, err = p.not()
		left = &andExpr{left, right}
	}
	return left, err
}

func (p *parser) not() (expr, error) {
	if p.skipName("not") {
		if err := p.enter(); err != nil {
			return nil, err
		}
		defer p.leave()
		e, err := p.not()
		return &notExpr{e}, err
	}
	return p.compare()
}

func (p *parser) compare() (expr, error) {
	first, err := p.sum()
	if err != nil {
		return nil, err
	}
	c := &compareExpr{first: first}
	for {
		op := ""
		switch t := p.peek(); {
		case t.kind == tokOperator && (t.text == "==" || t.text == "!=" || t.text == "<" || t.text == "<=" || t.text == ">" || t.text == ">="):
			op = t.text
			p.at++
		case p.isName("in"):
			op = "in"
			p.at++
		case p.isName("not") && p.tokens[p.at+1].kind == tokName && p.tokens[p.at+1].text == "in":
			op = "not in"
			p.at += 2
		}
		if op == "" {
			break
		}
		e, err := p.sum()
		if err != nil {
			return nil, err
		}
		c.ops, c.rest = append(c.ops, op), append(c.rest, e)
	}
	if len(c.ops) == 0 {
		return first, nil
	}
	return c, nil
}

// binary parses a chain of left-associative operators.
func (p *parser) binary(operand func() (expr, error), ops ...string) (expr, error) {
	left, err := operand()
	for err == nil {
		op := ""
		for _, candidate := range ops {
			if p.skipOp(candidate) {
				op = candidate
				break
			}
		}
		if op == "" {
			return left, nil
		}
		var right expr
		right, err = operand()
		left = &binaryExpr{op, left, right}
	}
	return nil, err
}

func (p *parser) sum() (expr, error) { return p.binary(p.concat, "+", "-") }

func (p *parser) concat() (expr, error) {
	first, err := p.product()
	if err != nil || !p.isOp("~") {
		return first, err
	}
	items := []expr{first}
	for p.skipOp("~") {
		e, err := p.product()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
	}
	return &concatExpr{items}, nil
}

func (p *parser) product() (expr, error) { return p.binary(p.power, "*", "/", "//", "%") }

func (p *parser) power() (expr, error) {
	return p.binary(func() (expr, error) { return p.unary(true) }, "**")
}

func (p *parser) unary(withFilter bool) (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	var e expr
	var err error
	switch {
	case p.skipOp("-"):
		e, err = p.unary(false)
		e = &unaryExpr{"-", e}
	case p.skipOp("+"):
		e, err = p.unary(false)
		e = &unaryExpr{"+", e}
	default:
		e, err = p.primary()
	}
	if err != nil {
		return nil, err
	}
	if e, err = p.postfix(e); err != nil || !withFilter {
		return e, err
	}
	return p.filtersAndTests(e)
}

func (p *parser) primary() (expr, error) {
	switch t := p.peek(); t.kind {
	case tokName:
		p.at++
		switch t.text {
		case "true", "True":
			return &literal{true}, nil
		case "false", "False":
			return &literal{false}, nil
		case "none", "None":
			return &literal{nil}, nil
		case "varargs", "kwargs", "caller":
			p.uses(t.text)
		}
		return &nameExpr{t.text}, nil
	case tokString:
		p.at++
		joined := t.text
		for p.peek().kind == tokString {
			joined += p.next().text
		}
		return &literal{joined}, nil
	case tokInteger:
		p.at++
		n, ok := new(big.Int).SetString(strings.ReplaceAll(t.text, "_", ""), integerBase(t.text))
		if !ok {
			return nil, p.fail("%s is no integer", t.text)
		}
		return &literal{shrink(n)}, nil
	case tokFloat:
		p.at++
		f, err := strconv.ParseFloat(strings.ReplaceAll(t.text, "_", ""), 64)
		if err != nil && !math.IsInf(f, 0) {
			return nil, p.fail("%s is no number", t.text)
		}
		return &literal{f}, nil
	case tokOperator:
		switch t.text {
		case "(":
			p.at++
			if p.skipOp(")") {
				return &tupleExpr{}, nil
			}
			e, err := p.tuple(true, nil)
			if err != nil {
				return nil, err
			}
			return e, p.expectOp(")")
		case "[":
			return p.list()
		case "{":
			return p.dict()
		}
	}
	return nil, p.fail("unexpected %s", p.describe())
}

func integerBase(s string) int {
	if len(s) > 1 && s[0] == '0' && strings.ContainsRune("xXoObB", rune(s[1])) {
		return 0
	}
	return 10
}

// uses notes that the macros being parsed use a name that their calls provide.
func (p *parser) uses(name string) {
	if len(p.macros) == 0 {
		return
	}
	m := p.macros[len(p.macros)-1]
	switch name {
	case "varargs":
		m.usesVarargs = true
	case "kwargs":
		m.usesKwargs = true
	case "caller":
		m.usesCaller = true
	}
}

func (p *parser) list() (expr, error) {
	p.at++
	e := &listExpr{}
	for !p.isOp("]") {
		if len(e.items) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.isOp("]") {
				break
			}
		}
		item, err := p.expression()
		if err != nil {
			return nil, err
		}
		e.items = append(e.items, item)
	}
	return e, p.expectOp("]")
}

func (p *parser) dict() (expr, error) {
	p.at++
	e := &dictExpr{}
	for !p.isOp("}") {
		if len(e.keys) > 0 {
			if err := p.expectOp(","); err != nil {
				return nil, err
			}
			if p.isOp("}") {
				break
			}
		}
		k, err := p.expression()
		if err != nil {
			return nil, err
		}
		if err := p.expectOp(":"); err != nil {
			return nil, err
		}
		v, err := p.expression()
		if err != nil {
			return nil, err
		}
		e.keys, e.values = append(e.keys, k), append(e.values, v)
	}
	return e, p.expectOp("}")
}

func (p *parser) postfix(e expr) (expr, error) {
	var err error
	for err == nil {
		switch {
		case p.isOp(".") || p.isOp("["):
			e, err = p.subscript(e)
		case p.isOp("("):
			e, err = p.call(e)
		default:
			return e, nil
		}
	}
	return nil, err
}

func (p *parser) filtersAndTests(e expr) (expr, error) {
	var err error
	for err == nil {
		switch {
		case p.skipOp("|"):
			e, err = p.filter(e)
		case p.skipName("is"):
			e, err = p.test(e)
		case p.isOp("("):
			e, err = p.call(e)
		default:
			return e, nil
		}
	}
	return nil, err
}

func (p *parser) subscript(of expr) (expr, error) {
	if p.next().text == "." {
		switch t := p.next(); t.kind {
		case tokName:
			return &attrExpr{of, t.text}, nil
		case tokInteger:
			n, err := strconv.ParseInt(t.text, 10, 64)
			if err != nil {
				return nil, p.fail("%s is no index", t.text)
			}
			return &indexExpr{of, &literal{n}}, nil
		}
		p.at--
		return nil, p.fail("expected name or number, got %s", p.describe())
	}
	var parts []expr
	isTuple := false
	for !p.isOp("]") || len(parts) == 0 {
		e, err := p.subscriptPart(of)
		if err != nil {
			return nil, err
		}
		parts = append(parts, e)
		if !p.skipOp(",") {
			break
		}
		isTuple = true
	}
	if err := p.expectOp("]"); err != nil {
		return nil, err
	}
	if isTuple {
		for _, part := range parts {
			if _, isSlice := part.(*sliceExpr); isSlice {
				return nil, p.fail("slices of several dimensions are not supported")
			}
		}
		return &indexExpr{of, &tupleExpr{parts}}, nil
	}
	if s, isSlice := parts[0].(*sliceExpr); isSlice {
		return s, nil
	}
	return &indexExpr{of, parts[0]}, nil
}

// subscriptPart parses an index or start:stop:step.
func (p *parser) subscriptPart(of expr) (expr, error) {
	var bounds [3]expr
	n, colons := 0, 0
	for {
		switch {
		case p.skipOp(":"):
			colons++
			n = colons
			if colons > 2 {
				return nil, p.fail("a slice has three parts at most")
			}
			continue
		case p.isOp("]") || p.isOp(","):
			if colons == 0 {
				if bounds[0] == nil {
					return nil, p.fail("expected subscript expression")
				}
				return bounds[0], nil
			}
			return &sliceExpr{of, bounds[0], bounds[1], bounds[2]}, nil
		}
		if bounds[n] != nil {
			return nil, p.fail("unexpected %s", p.describe())
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		bounds[n] = e
	}
}

func (p *parser) call(fn expr) (expr, error) {
	args, err := p.args()
	return &callExpr{fn, args}, err
}

func (p *parser) args() (callArgs, error) {
	var a callArgs
	if err := p.expectOp("("); err != nil {
		return a, err
	}
	for first := true; !p.isOp(")"); first = false {
		if !first {
			if err := p.expectOp(","); err != nil {
				return a, err
			}
			if p.isOp(")") {
				break
			}
		}
		if err := p.arg(&a); err != nil {
			return a, err
		}
	}
	return a, p.expectOp(")")
}

func (p *parser) arg(a *callArgs) (err error) {
	switch {
	case p.skipOp("**"):
		a.starStar, err = p.expression()
	case p.skipOp("*"):
		if a.star != nil || a.starStar != nil {
			return p.fail("invalid syntax for function call expression")
		}
		a.star, err = p.expression()
	case p.peek().kind == tokName && p.tokens[p.at+1].kind == tokOperator && p.tokens[p.at+1].text == "=":
		name := p.next().text
		p.at++
		var e expr
		e, err = p.expression()
		a.keywords, a.values = append(a.keywords, name), append(a.values, e)
	default:
		if len(a.keywords) > 0 || a.star != nil || a.starStar != nil {
			return p.fail("invalid syntax for function call expression: positional argument after keyword argument")
		}
		var e expr
		e, err = p.expression()
		a.positional = append(a.positional, e)
	}
	return err
}

// dotted parses the name of a filter or test.
func (p *parser) dotted() (string, error) {
	name, err := p.expectName()
	for err == nil && p.skipOp(".") {
		var more string
		more, err = p.expectName()
		name += "." + more
	}
	return name, err
}

// filter parses what follows |. A template may name a filter that does not exist in a
// branch it never takes: the name is an error when it is reached.
func (p *parser) filter(of expr) (*filterExpr, error) {
	line := p.peek().line
	name, err := p.dotted()
	if err != nil {
		return nil, err
	}
	f := &filterExpr{of: of, name: name, line: line, fn: filterNamed(name)}
	if p.isOp("(") {
		f.args, err = p.args()
	}
	return f, err
}

func (p *parser) test(of expr) (expr, error) {
	negated := p.skipName("not")
	line := p.peek().line
	name, err := p.dotted()
	if err != nil {
		return nil, err
	}
	t := &testExpr{of: of, name: name, line: line, fn: testNamed(name)}
	switch next := p.peek(); {
	case p.isOp("("):
		t.args, err = p.args()
	case next.kind == tokString, next.kind == tokInteger, next.kind == tokFloat, p.isOp("["), p.isOp("{"),
		next.kind == tokName && !p.isName("else", "or", "and"):
		if p.isName("is") {
			return nil, p.fail("you cannot chain multiple tests with is")
		}
		// "x is defined if …" and "… in …" would read on: Jinja2 takes any name as the argument.
		var arg expr
		if arg, err = p.primary(); err != nil {
			return nil, err
		}
		if arg, err = p.postfix(arg); err != nil {
			return nil, err
		}
		t.args.positional = []expr{arg}
	}
	if err != nil {
		return nil, err
	}
	if negated {
		return &notExpr{t}, nil
	}
	return t, nil
}
