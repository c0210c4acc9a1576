package jinja

import (
	"slices"
	"strconv"
)

// tuple reads one expression, or several with commas as a list. withIf allows a condition at its top.
func (p *parser) tuple(withIf bool) (expr, error) {
	read := p.or
	if withIf {
		read = p.expression
	}
	first, err := read()
	if err != nil || !p.at(kindOperator, ",") {
		return first, err
	}
	items := []expr{first}
	for p.op(",") {
		if t := p.peek(); t.kind == kindBlockEnd || t.kind == kindPrintEnd || p.at(kindOperator, ")") {
			break
		}
		e, err := read()
		if err != nil {
			return nil, err
		}
		items = append(items, e)
	}
	return &list{items, true}, nil
}

// expression reads one with its condition: a if b else c.
func (p *parser) expression() (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	e, err := p.or()
	if err != nil {
		return nil, err
	}
	for p.word("if") {
		c := &conditional{then: e}
		if c.cond, err = p.or(); err != nil {
			return nil, err
		}
		if p.word("else") {
			if c.otherwise, err = p.expression(); err != nil {
				return nil, err
			}
		}
		e = c
	}
	return e, nil
}

func (p *parser) or() (expr, error) {
	e, err := p.and()
	for err == nil && p.word("or") {
		var right expr
		right, err = p.and()
		e = &or{e, right}
	}
	return e, err
}

func (p *parser) and() (expr, error) {
	e, err := p.not()
	for err == nil && p.word("and") {
		var right expr
		right, err = p.not()
		e = &and{e, right}
	}
	return e, err
}

func (p *parser) not() (expr, error) {
	if !p.word("not") {
		return p.compare()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	e, err := p.not()
	return &not{e}, err
}

var comparisons = []string{"==", "!=", "<", "<=", ">", ">="}

func (p *parser) compare() (expr, error) {
	first, err := p.sum()
	if err != nil {
		return nil, err
	}
	c := &compare{first: first}
	for {
		t := p.peek()
		var op string
		switch {
		case t.kind == kindOperator && slices.Contains(comparisons, t.text):
			op = p.next().text
		case p.word("in"):
			op = "in"
		case p.at(kindName, "not") && p.tokens[p.pos+1].kind == kindName && p.tokens[p.pos+1].text == "in":
			p.pos += 2
			op = "not in"
		case len(c.ops) == 0:
			return first, nil
		default:
			return c, nil
		}
		right, err := p.sum()
		if err != nil {
			return nil, err
		}
		c.ops, c.rest = append(c.ops, op), append(c.rest, right)
	}
}

// level reads operands with the operators of one level between them, from the left.
func (p *parser) level(operand func() (expr, error), ops ...string) (expr, error) {
	e, err := operand()
	for err == nil {
		t := p.peek()
		if t.kind != kindOperator || !slices.Contains(ops, t.text) {
			return e, nil
		}
		p.next()
		var right expr
		right, err = operand()
		e = &binary{t.text, e, right}
	}
	return nil, err
}

func (p *parser) sum() (expr, error)     { return p.level(p.join, "+", "-") }
func (p *parser) join() (expr, error)    { return p.level(p.product, "~") }
func (p *parser) product() (expr, error) { return p.level(p.power, "*", "/", "//", "%") }
func (p *parser) power() (expr, error) {
	return p.level(func() (expr, error) { return p.unary(true) }, "**")
}

// unary reads a sign, or a primary with what is attached to it. Filters and tests belong to the sign's value.
func (p *parser) unary(attached bool) (expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	var e expr
	var err error
	switch {
	case p.op("-"):
		e, err = p.unary(false)
		e = &minus{e}
	case p.op("+"):
		e, err = p.unary(false)
		e = &plus{e}
	default:
		if e, err = p.primary(); err == nil {
			e, err = p.postfix(e)
		}
	}
	if err != nil || !attached {
		return e, err
	}
	return p.attachments(e)
}

// attachments reads filters, tests and calls behind them.
func (p *parser) attachments(e expr) (expr, error) {
	for {
		var err error
		switch {
		case p.op("|"):
			e, err = p.filter(e)
		case p.word("is"):
			e, err = p.test(e)
		case p.at(kindOperator, "("):
			e, err = p.call(e)
		default:
			return e, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *parser) primary() (expr, error) {
	t := p.next()
	switch t.kind {
	case kindName:
		switch t.text {
		case "true", "True":
			return &literal{true}, nil
		case "false", "False":
			return &literal{false}, nil
		case "none", "None":
			return &literal{nil}, nil
		}
		if slices.Contains(reserved, t.text) {
			return nil, p.fail("%s stands where a value was expected", t)
		}
		return &name{t.text}, nil
	case kindString:
		value := t.text
		for p.peek().kind == kindString {
			value += p.next().text
		}
		return &literal{value}, nil
	case kindInt:
		n, err := strconv.ParseInt(t.text, 10, 64)
		if err != nil {
			return nil, p.fail("%s is too large", t)
		}
		return &literal{n}, nil
	case kindFloat:
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil {
			return nil, p.fail("%s is too large", t)
		}
		return &literal{f}, nil
	case kindOperator:
		switch t.text {
		case "(":
			return p.parenthesis()
		case "[":
			return p.list()
		case "{":
			return p.dict()
		}
	}
	return nil, p.fail("%s stands where a value was expected", t)
}

func (p *parser) parenthesis() (expr, error) {
	if p.op(")") {
		return &list{tuple: true}, nil
	}
	e, err := p.tuple(true)
	if err != nil {
		return nil, err
	}
	return e, p.expect(kindOperator, ")")
}

func (p *parser) list() (expr, error) {
	var l list
	for !p.op("]") {
		if len(l.items) > 0 {
			if err := p.expect(kindOperator, ","); err != nil {
				return nil, err
			}
			if p.op("]") {
				break
			}
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		l.items = append(l.items, e)
	}
	return &l, nil
}

func (p *parser) dict() (expr, error) {
	var d dict
	for !p.op("}") {
		if len(d.keys) > 0 {
			if err := p.expect(kindOperator, ","); err != nil {
				return nil, err
			}
			if p.op("}") {
				break
			}
		}
		key, err := p.expression()
		if err == nil {
			err = p.expect(kindOperator, ":")
		}
		if err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		d.keys, d.values = append(d.keys, key), append(d.values, value)
	}
	return &d, nil
}

// postfix reads attributes, items and calls.
func (p *parser) postfix(e expr) (expr, error) {
	for {
		var err error
		switch {
		case p.op("."):
			t := p.next()
			switch t.kind {
			case kindName:
				e = &attribute{e, t.text}
			case kindInt:
				n, _ := strconv.ParseInt(t.text, 10, 64) // Too many digits are an index that no list has.
				e = &item{e, &literal{n}}
			default:
				return nil, p.fail("%s stands where an attribute was expected", t)
			}
		case p.op("["):
			e, err = p.subscript(e)
		case p.at(kindOperator, "("):
			e, err = p.call(e)
		default:
			return e, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (p *parser) subscript(of expr) (expr, error) {
	var parts [3]expr
	colons := 0
	for !p.op("]") {
		if p.op(":") {
			if colons++; colons > 2 {
				return nil, p.fail("a slice has three parts at most")
			}
			continue
		}
		if parts[colons] != nil {
			return nil, p.fail("expected ']', found %s", p.peek())
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		parts[colons] = e
	}
	switch {
	case colons > 0:
		return &slice{of, parts[0], parts[1], parts[2]}, nil
	case parts[0] == nil:
		return nil, p.fail("an item without a key")
	}
	return &item{of, parts[0]}, nil
}

func (p *parser) call(of expr) (expr, error) {
	args, err := p.arguments()
	return &call{of, args}, err
}

// arguments reads them with their parentheses.
func (p *parser) arguments() (a arguments, err error) {
	if err = p.expect(kindOperator, "("); err != nil {
		return a, err
	}
	for count := 0; !p.op(")"); count++ {
		if count > 0 {
			if err = p.expect(kindOperator, ","); err != nil {
				return a, err
			}
			if p.op(")") {
				break
			}
		}
		keyword := p.peek().kind == kindName && p.tokens[p.pos+1].kind == kindOperator && p.tokens[p.pos+1].text == "="
		if keyword {
			a.names = append(a.names, p.next().text)
			p.next()
		}
		e, err := p.expression()
		if err != nil {
			return a, err
		}
		switch {
		case keyword:
			a.named = append(a.named, e)
		case len(a.names) > 0:
			return a, p.fail("an argument without a name behind one with a name")
		default:
			a.positional = append(a.positional, e)
		}
	}
	return a, nil
}

// filter reads one filter's name and arguments; the bar was read.
func (p *parser) filter(of expr) (expr, error) {
	n, err := p.identifier()
	if err != nil {
		return nil, err
	}
	f := &filter{of: of, named: n, apply: filters[n]}
	if f.apply == nil {
		return nil, p.fail("filter %q is not supported", n)
	}
	if p.at(kindOperator, "(") {
		if f.args, err = p.arguments(); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// filters reads a chain whose first bar was read, or is not there.
func (p *parser) filters() ([]filter, error) {
	var chain []filter
	for {
		f, err := p.filter(nil)
		if err != nil {
			return nil, err
		}
		chain = append(chain, *f.(*filter))
		if !p.op("|") {
			return chain, nil
		}
	}
}

// test reads a test; "is" was read.
func (p *parser) test(of expr) (expr, error) {
	t := &test{of: of, not: p.word("not")}
	word := p.next()
	if word.kind != kindName {
		return nil, p.fail("%s is no test", word)
	}
	if t.apply = tests[word.text]; t.apply == nil {
		return nil, p.fail("test %q is not supported", word.text)
	}
	if p.at(kindOperator, "(") {
		args, err := p.arguments()
		if err == nil && len(args.names) > 0 {
			err = p.fail("tests have no named arguments")
		}
		t.args = args.positional
		return t, err
	}
	if !p.startsArgument() {
		return t, nil
	}
	e, err := p.primary()
	if err == nil {
		e, err = p.postfix(e)
	}
	t.args = []expr{e}
	return t, err
}

// startsArgument says whether a test's argument follows without parentheses.
func (p *parser) startsArgument() bool {
	switch t := p.peek(); t.kind {
	case kindString, kindInt, kindFloat:
		return true
	case kindName:
		return !slices.Contains([]string{"else", "or", "and", "if", "in", "is", "not"}, t.text)
	case kindOperator:
		return t.text == "[" || t.text == "{"
	}
	return false
}
