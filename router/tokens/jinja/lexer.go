package jinja

import (
	"fmt"
	"strconv"
	"strings"
)

// kind is what a token is.
type kind uint8

const (
	kindEnd        kind = iota // of the source
	kindData                   // text between tags
	kindPrint                  // {{
	kindPrintEnd               // }}
	kindBlock                  // {%
	kindBlockEnd               // %}
	kindName                   // an identifier or keyword
	kindString                 // without quotes and escapes
	kindInt                    // digits
	kindFloat                  // digits
	kindOperator               // one of operators
	kindCommentEnd             // only inside the lexer
)

type token struct {
	kind kind
	text string
	line int
}

func (t token) String() string {
	switch t.kind {
	case kindEnd:
		return "the end of the template"
	case kindData:
		return "text"
	case kindPrint:
		return "{{"
	case kindPrintEnd:
		return "}}"
	case kindBlock:
		return "{%"
	case kindBlockEnd:
		return "%}"
	}
	return strconv.Quote(t.text)
}

// operators, the longer ones first.
var operators = []string{
	"==", "!=", ">=", "<=", "//", "**", "+", "-", "*", "/", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";",
}

// lexer cuts a source into tokens, with trim_blocks and lstrip_blocks: a newline behind a block tag goes, and so does
// white space before one on its line.
type lexer struct {
	source string
	pos    int
	line   int
	tokens []token
	// fresh says that what was read last ended a line, or that nothing was read.
	fresh bool
}

func lex(source string) ([]token, error) {
	if len(source) > maxSourceBytes {
		return nil, fmt.Errorf("the template has %d bytes, at most %d are allowed", len(source), maxSourceBytes)
	}
	source = strings.ReplaceAll(strings.ReplaceAll(source, "\r\n", "\n"), "\r", "\n")
	l := &lexer{source: strings.TrimSuffix(source, "\n"), line: 1, fresh: true}
	for l.pos < len(l.source) {
		if err := l.element(); err != nil {
			return nil, fmt.Errorf("line %d: %w", l.line, err)
		}
	}
	l.emit(kindEnd, "")
	return l.tokens, nil
}

func (l *lexer) emit(k kind, text string) {
	l.tokens = append(l.tokens, token{kind: k, text: text, line: l.line})
}

// take moves over n bytes and returns them.
func (l *lexer) take(n int) string {
	text := l.source[l.pos : l.pos+n]
	l.line += strings.Count(text, "\n")
	l.pos += n
	return text
}

func (l *lexer) rest() string { return l.source[l.pos:] }

// element reads text up to the next tag, and the tag.
func (l *lexer) element() error {
	at, opening := l.nextTag()
	if at < 0 {
		l.data(l.rest(), 0, "")
		l.pos = len(l.source)
		return nil
	}
	after := at + 2
	var control byte
	if after < len(l.rest()) && (l.rest()[after] == '-' || l.rest()[after] == '+' && opening != "{{") {
		control = l.rest()[after]
		after++
	}
	l.data(l.rest()[:at], control, opening)
	l.take(after)
	switch opening {
	case "{#":
		return l.comment()
	case "{%":
		if raw, err := l.raw(); raw || err != nil {
			return err
		}
		l.emit(kindBlock, "")
		return l.expression(kindBlockEnd)
	}
	l.emit(kindPrint, "")
	return l.expression(kindPrintEnd)
}

// nextTag finds the next opening, -1 without one.
func (l *lexer) nextTag() (at int, opening string) {
	rest := l.rest()
	for i := 0; i+1 < len(rest); i++ {
		if rest[i] == '{' && (rest[i+1] == '{' || rest[i+1] == '%' || rest[i+1] == '#') {
			return i, rest[i : i+2]
		}
	}
	return -1, ""
}

// data emits text before a tag. control is the tag's sign on this side: '-' takes all white space off, '+' nothing, and
// without one a block or comment takes what is between it and the beginning of its line.
func (l *lexer) data(text string, control byte, opening string) {
	switch {
	case control == '-':
		text = strings.TrimRightFunc(text, isSpace)
	case control != '+' && opening != "{{" && opening != "":
		line := strings.LastIndexByte(text, '\n') + 1
		if (line > 0 || l.fresh) && strings.TrimFunc(text[line:], isSpace) == "" {
			text = text[:line]
		}
	}
	if text != "" {
		l.emit(kindData, text)
	}
}

// comment skips one, whose opening was read.
func (l *lexer) comment() error {
	end := strings.Index(l.rest(), "#}")
	if end < 0 {
		return fmt.Errorf("a comment does not end")
	}
	control := byte(0)
	if end > 0 && (l.rest()[end-1] == '-' || l.rest()[end-1] == '+') {
		control = l.rest()[end-1]
	}
	l.take(end + 2)
	l.close(kindCommentEnd, control)
	return nil
}

// close takes off what belongs to a tag's end.
func (l *lexer) close(k kind, control byte) {
	l.fresh = false
	skip := 0
	switch {
	case control == '-':
		skip = len(l.rest()) - len(strings.TrimLeftFunc(l.rest(), isSpace))
	case k != kindPrintEnd && control != '+' && strings.HasPrefix(l.rest(), "\n"):
		skip = 1
	}
	if skip > 0 {
		l.fresh = strings.HasSuffix(l.take(skip), "\n")
	}
}

// raw reads a whole {% raw %} block when that is what comes.
func (l *lexer) raw() (bool, error) {
	rest := l.rest()
	inner := strings.TrimLeftFunc(rest, isSpace)
	if !strings.HasPrefix(inner, "raw") {
		return false, nil
	}
	inner = strings.TrimLeftFunc(inner[len("raw"):], isSpace)
	control := byte(0)
	if inner != "" && (inner[0] == '-' || inner[0] == '+') {
		control, inner = inner[0], inner[1:]
	}
	if !strings.HasPrefix(inner, "%}") {
		return false, nil
	}
	l.take(len(rest) - len(inner) + 2)
	l.close(kindBlockEnd, control)
	for from := 0; ; {
		at := strings.Index(l.rest()[from:], "{%")
		if at < 0 {
			return true, fmt.Errorf("{%% raw %%} does not end")
		}
		at += from
		length, before, after, ok := endraw(l.rest()[at:])
		if !ok {
			from = at + 2
			continue
		}
		l.data(l.rest()[:at], before, "{%")
		l.take(at + length)
		l.close(kindBlockEnd, after)
		return true, nil
	}
}

// endraw reads the closing tag of a raw block with its signs.
func endraw(s string) (length int, before, after byte, ok bool) {
	rest := s[2:]
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		before, rest = rest[0], rest[1:]
	}
	rest = strings.TrimLeftFunc(rest, isSpace)
	if !strings.HasPrefix(rest, "endraw") {
		return 0, 0, 0, false
	}
	rest = strings.TrimLeftFunc(rest[len("endraw"):], isSpace)
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		after, rest = rest[0], rest[1:]
	}
	if !strings.HasPrefix(rest, "%}") {
		return 0, 0, 0, false
	}
	return len(s) - len(rest) + 2, before, after, true
}
