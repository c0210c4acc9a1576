package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
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

// expression reads the inside of a tag and its end. Inside brackets nothing ends it.
func (l *lexer) expression(end kind) error {
	closing := "}}"
	if end == kindBlockEnd {
		closing = "%}"
	}
	depth := 0
	for {
		l.take(len(l.rest()) - len(strings.TrimLeftFunc(l.rest(), isSpace)))
		rest := l.rest()
		if rest == "" {
			return fmt.Errorf("a tag does not end")
		}
		if depth == 0 {
			if control, length := tagEnd(rest, closing); length > 0 {
				l.take(length)
				l.emit(end, "")
				l.close(end, control)
				return nil
			}
		}
		if err := l.token(rest, &depth); err != nil {
			return err
		}
	}
}

func tagEnd(rest, closing string) (control byte, length int) {
	if strings.HasPrefix(rest, closing) {
		return 0, len(closing)
	}
	if (rest[0] == '-' || rest[0] == '+' && closing == "%}") && strings.HasPrefix(rest[1:], closing) {
		return rest[0], 1 + len(closing)
	}
	return 0, 0
}

func (l *lexer) token(rest string, depth *int) error {
	first, _ := utf8.DecodeRuneInString(rest)
	switch {
	case first == '_' || unicode.IsLetter(first):
		end := strings.IndexFunc(rest, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		if end < 0 {
			end = len(rest)
		}
		l.emit(kindName, l.take(end))
		return nil
	case first >= '0' && first <= '9':
		length, float := number(rest, l.afterDot())
		text := strings.ReplaceAll(l.take(length), "_", "")
		l.emit(kindInt, text)
		if float {
			l.tokens[len(l.tokens)-1].kind = kindFloat
		}
		return nil
	case first == '"' || first == '\'':
		return l.str(rest)
	}
	for _, op := range operators {
		if strings.HasPrefix(rest, op) {
			switch op {
			case "(", "[", "{":
				*depth++
			case ")", "]", "}":
				if *depth--; *depth < 0 {
					return fmt.Errorf("%q closes nothing", op)
				}
			}
			l.emit(kindOperator, op)
			l.take(len(op))
			return nil
		}
	}
	return fmt.Errorf("%q means nothing here", first)
}

// afterDot says that a number stands behind a dot, where it is an index: a.0.1.
func (l *lexer) afterDot() bool {
	last := l.tokens[len(l.tokens)-1]
	return last.kind == kindOperator && last.text == "."
}

// number measures digits: a float when they have a fraction or an exponent.
func number(s string, index bool) (length int, float bool) {
	digits := func(i int) int {
		for i < len(s) && (s[i] >= '0' && s[i] <= '9' || s[i] == '_') {
			i++
		}
		return i
	}
	n := digits(0)
	if index {
		return n, false
	}
	if n+1 < len(s) && s[n] == '.' && s[n+1] >= '0' && s[n+1] <= '9' {
		n, float = digits(n+1), true
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		at := n + 1
		if at < len(s) && (s[at] == '+' || s[at] == '-') {
			at++
		}
		if end := digits(at); end > at {
			n, float = end, true
		}
	}
	return n, float
}

// str reads a string literal with Python's escapes.
func (l *lexer) str(rest string) error {
	quote := rest[0]
	end := 1
	for ; end < len(rest) && rest[end] != quote; end++ {
		if rest[end] == '\\' {
			end++
		}
	}
	if end >= len(rest) {
		return fmt.Errorf("a string does not end")
	}
	text, err := unescape(rest[1:end])
	if err != nil {
		return err
	}
	l.emit(kindString, text)
	l.take(end + 1)
	return nil
}

var escapes = map[byte]string{
	'\n': "", '\\': "\\", '\'': "'", '"': `"`, 'a': "\a", 'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v",
}

// unescape resolves backslashes as a Python string literal does. An unknown one stands for itself.
func unescape(s string) (string, error) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if plain, ok := escapes[s[i]]; ok {
			b.WriteString(plain)
			continue
		}
		width := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i]]
		if width == 0 {
			if s[i] >= '0' && s[i] <= '7' || s[i] == 'N' {
				return "", fmt.Errorf(`the escape \%c is not supported`, s[i])
			}
			b.WriteByte('\\')
			b.WriteByte(s[i])
			continue
		}
		if i+width >= len(s) {
			return "", fmt.Errorf(`an escape \%c is cut off`, s[i])
		}
		code, err := strconv.ParseUint(s[i+1:i+1+width], 16, 32)
		if err != nil || !utf8.ValidRune(rune(code)) {
			return "", fmt.Errorf(`\%s is no character`, s[i:i+1+width])
		}
		b.WriteRune(rune(code))
		i += width
	}
	return b.String(), nil
}

// isSpace is Python's str.isspace: Unicode's white space and the four separators of ASCII.
func isSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }
