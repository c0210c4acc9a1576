package jinja

import (
	"fmt"
	"slices"
)

// parser turns tokens into a tree.
type parser struct {
	tokens []token
	pos    int
	depth  int
	loops  int
}

// Template is a parsed template. It is immutable.
type Template struct{ body block }

// Parse reads a template. The error says what it does that chat templates may not, and where.
func Parse(source string) (*Template, error) {
	tokens, err := lex(source)
	if err != nil {
		return nil, fmt.Errorf("jinja: %w", err)
	}
	p := &parser{tokens: tokens}
	body, _, err := p.body()
	if err == nil && p.peek().kind != kindEnd {
		err = p.fail("%s closes nothing", p.tagName())
	}
	if err != nil {
		return nil, fmt.Errorf("jinja: %w", err)
	}
	return &Template{body: body}, nil
}

func (p *parser) peek() token { return p.tokens[p.pos] }

func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != kindEnd {
		p.pos++
	}
	return t
}

func (p *parser) fail(format string, args ...any) error {
	return fmt.Errorf("line %d: %s", p.peek().line, fmt.Sprintf(format, args...))
}

func (p *parser) at(k kind, text string) bool {
	t := p.peek()
	return t.kind == k && t.text == text
}

// accept takes a token if it is the next.
func (p *parser) accept(k kind, text string) bool {
	if !p.at(k, text) {
		return false
	}
	p.pos++
	return true
}

func (p *parser) op(text string) bool   { return p.accept(kindOperator, text) }
func (p *parser) word(text string) bool { return p.accept(kindName, text) }

func (p *parser) expect(k kind, text string) error {
	if !p.accept(k, text) {
		return p.fail("expected %s, found %s", token{kind: k, text: text}, p.peek())
	}
	return nil
}

func (p *parser) identifier() (string, error) {
	t := p.peek()
	if t.kind != kindName || slices.Contains(reserved, t.text) {
		return "", p.fail("expected a name, found %s", t)
	}
	p.pos++
	return t.text, nil
}

// reserved are names that cannot be assigned to.
var reserved = []string{"true", "false", "none", "True", "False", "None", "and", "or", "not", "in", "is", "if", "else"}

// enter counts nesting; leave undoes it.
func (p *parser) enter() error {
	if p.depth++; p.depth > maxNesting {
		return p.fail("nested deeper than %d levels", maxNesting)
	}
	return nil
}

func (p *parser) leave() { p.depth-- }

// tagName names the tag that begins here.
func (p *parser) tagName() string {
	if p.pos+1 < len(p.tokens) && p.peek().kind == kindBlock {
		return "{% " + p.tokens[p.pos+1].text + " %}"
	}
	return p.peek().String()
}

// body reads statements up to one of the tags named, whose opening and name are read as well. Without names it reads to
// the end.
func (p *parser) body(ends ...string) (block, string, error) {
	if err := p.enter(); err != nil {
		return nil, "", err
	}
	defer p.leave()
	var b block
	for {
		switch t := p.peek(); t.kind {
		case kindEnd:
			if len(ends) > 0 {
				return nil, "", p.fail("the template ends where %v was expected", ends)
			}
			return b, "", nil
		case kindData:
			p.next()
			b = append(b, &text{t.text})
		case kindPrint:
			p.next()
			value, err := p.tuple(true)
			if err == nil {
				err = p.expect(kindPrintEnd, "")
			}
			if err != nil {
				return nil, "", err
			}
			b = append(b, &print{value})
		default:
			tag := p.tokens[p.pos+1]
			if slices.Contains(ends, tag.text) && tag.kind == kindName {
				p.pos += 2
				return b, tag.text, nil
			}
			if len(ends) == 0 && closing[tag.text] {
				return b, "", nil
			}
			s, err := p.statement()
			if err != nil {
				return nil, "", err
			}
			b = append(b, s)
		}
	}
}

// closing are tags that end a block.
var closing = map[string]bool{
	"else": true, "elif": true, "endif": true, "endfor": true, "endset": true, "endmacro": true, "endcall": true,
	"endfilter": true, "endwith": true, "endgeneration": true,
}

// statements by their tag.
func (p *parser) statement() (stmt, error) {
	p.next()
	tag := p.next()
	if tag.kind != kindName {
		return nil, p.fail("a block begins with %s", tag)
	}
	switch tag.text {
	case "if":
		return p.branch()
	case "for":
		return p.loop()
	case "set":
		return p.set()
	case "macro":
		return p.macro()
	case "call":
		return p.callBlock()
	case "filter":
		return p.filterBlock()
	case "with":
		return p.with()
	case "generation":
		return p.generation()
	case "break", "continue":
		if p.loops == 0 {
			return nil, p.fail("%s outside a loop", tag.text)
		}
		f := flowBreak
		if tag.text == "continue" {
			f = flowContinue
		}
		return &jump{f}, p.expect(kindBlockEnd, "")
	}
	return nil, p.fail("{%% %s %%} is nothing a chat template may do here", tag.text)
}

// end reads the end of the tag that closed a body.
func (p *parser) end() error { return p.expect(kindBlockEnd, "") }

// inner reads a body up to one closing tag, with that tag.
func (p *parser) inner(end string) (block, error) {
	if err := p.end(); err != nil {
		return nil, err
	}
	b, _, err := p.body(end)
	if err != nil {
		return nil, err
	}
	return b, p.end()
}

func (p *parser) branch() (stmt, error) {
	var s branch
	for {
		cond, err := p.tuple(false)
		if err == nil {
			err = p.end()
		}
		if err != nil {
			return nil, err
		}
		b, end, err := p.body("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		s.conds, s.bodies = append(s.conds, cond), append(s.bodies, b)
		switch end {
		case "elif":
			continue
		case "else":
			b, err = p.inner("endif")
			s.bodies = append(s.bodies, b)
			return &s, err
		}
		return &s, p.end()
	}
}

func (p *parser) loop() (stmt, error) {
	var s loop
	var err error
	if s.targets, err = p.targets(); err != nil {
		return nil, err
	}
	if err = p.expect(kindName, "in"); err != nil {
		return nil, err
	}
	if s.over, err = p.tuple(false); err != nil {
		return nil, err
	}
	if p.word("if") {
		if s.cond, err = p.expression(); err != nil {
			return nil, err
		}
	}
	if p.at(kindName, "recursive") {
		return nil, p.fail("recursive loops are not supported")
	}
	if err = p.end(); err != nil {
		return nil, err
	}
	p.loops++
	b, end, err := p.body("else", "endfor")
	p.loops--
	if err != nil {
		return nil, err
	}
	s.body = b
	if end == "else" {
		s.otherwise, err = p.inner("endfor")
		return &s, err
	}
	return &s, p.end()
}

// targets reads one name or several with commas, in parentheses or not.
func (p *parser) targets() ([]string, error) {
	bracket := p.op("(")
	var names []string
	for {
		n, err := p.identifier()
		if err != nil {
			return nil, err
		}
		names = append(names, n)
		if !p.op(",") {
			break
		}
	}
	if bracket {
		return names, p.expect(kindOperator, ")")
	}
	return names, nil
}

func (p *parser) set() (stmt, error) {
	var s set
	var err error
	if s.targets, err = p.targets(); err != nil {
		return nil, err
	}
	if len(s.targets) == 1 && p.op(".") {
		if s.attribute, err = p.identifier(); err != nil {
			return nil, err
		}
	}
	if p.op("=") {
		if s.value, err = p.tuple(true); err != nil {
			return nil, err
		}
		return &s, p.end()
	}
	if p.op("|") {
		if s.filters, err = p.filters(); err != nil {
			return nil, err
		}
	}
	s.body, err = p.inner("endset")
	return &s, err
}

func (p *parser) macro() (stmt, error) {
	n, err := p.identifier()
	if err != nil {
		return nil, err
	}
	m := &macroDef{name: n}
	if err := p.params(m); err != nil {
		return nil, err
	}
	return m, p.macroBody(m, "endmacro")
}

// macroBody reads a body that belongs to no loop around it.
func (p *parser) macroBody(m *macroDef, end string) error {
	loops := p.loops
	p.loops = 0
	defer func() { p.loops = loops }()
	var err error
	m.body, err = p.inner(end)
	return err
}

func (p *parser) params(m *macroDef) error {
	if err := p.expect(kindOperator, "("); err != nil {
		return err
	}
	for !p.op(")") {
		if len(m.params) > 0 {
			if err := p.expect(kindOperator, ","); err != nil {
				return err
			}
			if p.op(")") {
				return nil
			}
		}
		n, err := p.identifier()
		if err != nil {
			return err
		}
		m.params = append(m.params, n)
		switch {
		case p.op("="):
			value, err := p.expression()
			if err != nil {
				return err
			}
			m.defaults = append(m.defaults, value)
		case len(m.defaults) > 0:
			return p.fail("parameter %s needs a default, as the one before it has", n)
		}
	}
	return nil
}

func (p *parser) callBlock() (stmt, error) {
	m := &macroDef{name: "caller"}
	if p.at(kindOperator, "(") {
		if err := p.params(m); err != nil {
			return nil, err
		}
	}
	value, err := p.expression()
	if err != nil {
		return nil, err
	}
	c, ok := value.(*call)
	if !ok {
		return nil, p.fail("{%% call %%} needs a call")
	}
	return &callBlock{c, m}, p.macroBody(m, "endcall")
}

func (p *parser) filterBlock() (stmt, error) {
	filters, err := p.filters()
	if err != nil {
		return nil, err
	}
	b, err := p.inner("endfilter")
	return &filterBlock{filters, b}, err
}

func (p *parser) with() (stmt, error) {
	var s with
	for p.peek().kind != kindBlockEnd {
		if len(s.names) > 0 {
			if err := p.expect(kindOperator, ","); err != nil {
				return nil, err
			}
		}
		n, err := p.identifier()
		if err == nil {
			err = p.expect(kindOperator, "=")
		}
		if err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		s.names, s.values = append(s.names, n), append(s.values, value)
	}
	var err error
	s.body, err = p.inner("endwith")
	return &s, err
}

func (p *parser) generation() (stmt, error) {
	b, err := p.inner("endgeneration")
	return &scoped{b}, err
}
