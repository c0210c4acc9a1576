package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// appendStr writes a value as Python's str does.
func appendStr(dst []byte, v any) []byte {
	if s, ok := v.(string); ok {
		return append(dst, s...)
	}
	return appendRepr(dst, v, 0)
}

func str(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return string(appendStr(nil, v))
}

// appendRepr writes a value as Python's repr does, strings in quotes.
func appendRepr(dst []byte, v any, depth int) []byte {
	if depth > maxReprDepth {
		return append(dst, "..."...)
	}
	switch v := v.(type) {
	case nil:
		return append(dst, "None"...)
	case bool:
		if v {
			return append(dst, "True"...)
		}
		return append(dst, "False"...)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case float64:
		return appendFloat(dst, v)
	case Big:
		return append(dst, v...)
	case string:
		return appendQuoted(dst, v)
	case *List:
		return appendReprList(dst, v, depth)
	case *Dict:
		dst = append(dst, '{')
		for i, key := range v.keys {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = append(appendQuoted(dst, key), ": "...)
			dst = appendRepr(dst, v.values[i], depth+1)
		}
		return append(dst, '}')
	}
	return dst // undefined writes nothing; functions are refused before
}

func appendReprList(dst []byte, l *List, depth int) []byte {
	brackets := "[]"
	if l.tuple {
		brackets = "()"
	}
	dst = append(dst, brackets[0])
	for i, item := range l.Items {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = appendRepr(dst, item, depth+1)
	}
	if l.tuple && len(l.Items) == 1 {
		dst = append(dst, ',')
	}
	return append(dst, brackets[1])
}

// appendFloat writes the shortest digits that read back, with an exponent where Python has one.
func appendFloat(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, "nan"...)
	case math.IsInf(f, 1):
		return append(dst, "inf"...)
	case math.IsInf(f, -1):
		return append(dst, "-inf"...)
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.AppendFloat(dst, f, 'e', -1, 64) // Go and Python both write two digits of exponent at least.
	}
	before := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if !strings.ContainsRune(string(dst[before:]), '.') {
		dst = append(dst, ".0"...)
	}
	return dst
}

// appendQuoted writes a string literal as Python's repr does.
func appendQuoted(dst []byte, s string) []byte {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	dst = append(dst, quote)
	for _, r := range s {
		switch {
		case r == rune(quote) || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r == ' ' || unicode.IsPrint(r):
			dst = utf8.AppendRune(dst, r)
		case r < 0x100:
			dst = append(dst, `\x`...)
			dst = appendHex(dst, r, 2)
		case r < 0x10000:
			dst = append(dst, `\u`...)
			dst = appendHex(dst, r, 4)
		default:
			dst = append(dst, `\U`...)
			dst = appendHex(dst, r, 8)
		}
	}
	return append(dst, quote)
}

func appendHex(dst []byte, r rune, width int) []byte {
	for shift := 4 * (width - 1); shift >= 0; shift -= 4 {
		dst = append(dst, "0123456789abcdef"[r>>shift&15])
	}
	return dst
}
