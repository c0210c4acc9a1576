package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

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
