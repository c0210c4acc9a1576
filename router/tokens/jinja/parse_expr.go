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
