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
