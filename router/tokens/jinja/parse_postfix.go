package jinja

import (
	"slices"
	"strconv"
)

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
