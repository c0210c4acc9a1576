package jinja

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"
)

// jsonStyle is how json.dumps was asked to write. The separators are Python's defaults unless a template names others.
type jsonStyle struct {
	item, key string
	indent    string // of one level
	lines     bool
	sorted    bool
	ascii     bool
}

// toJSON is the filter as Hugging Face's transformers have it: json.dumps with ensure_ascii off, nothing escaped for HTML,
// and the keys in their order.
func toJSON(r *run, v any, a values) any {
	style := jsonStyle{item: ", ", key: ": "}
	if ascii, ok := a.arg(0, "ensure_ascii"); ok {
		style.ascii = truth(ascii)
	}
	if indent, ok := a.arg(1, "indent"); ok && indent != nil {
		style.lines, style.item = true, ","
		switch indent := indent.(type) {
		case string:
			style.indent = indent
		case int64:
			if indent > maxNesting {
				return r.fail("tojson with an indent of %d", indent)
			}
			style.indent = strings.Repeat(" ", int(max(indent, 0)))
		default:
			return r.fail("tojson with an indent that is %s", kindOf(indent))
		}
	}
	if separators, ok := a.arg(2, "separators"); ok && separators != nil {
		pair, ok := separators.(*List)
		if !ok || len(pair.Items) != 2 {
			return r.fail("tojson with separators that are no pair")
		}
		style.item, style.key = r.str(pair.Items[0]), r.str(pair.Items[1])
	}
	if sorted, ok := a.arg(3, "sort_keys"); ok {
		style.sorted = truth(sorted)
	}
	return r.made(string(r.appendJSON(nil, v, style, 0)))
}

func (r *run) appendJSON(dst []byte, v any, s jsonStyle, depth int) []byte {
	if !r.step(16) {
		return dst
	}
	if depth > maxReprDepth || len(dst) > MaxTextBytes {
		r.fail("tojson of something too large or too deep")
		return dst
	}
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...)
	case bool:
		if v {
			return append(dst, "true"...)
		}
		return append(dst, "false"...)
	case float64:
		switch {
		case math.IsNaN(v):
			return append(dst, "NaN"...)
		case math.IsInf(v, 1):
			return append(dst, "Infinity"...)
		case math.IsInf(v, -1):
			return append(dst, "-Infinity"...)
		}
		return appendFloat(dst, v)
	case int64, Big:
		return appendRepr(dst, v, depth)
	case string:
		r.step(len(v))
		return appendJSONString(dst, v, s.ascii)
	case *List:
		return r.appendJSONList(dst, v, s, depth)
	case *Dict:
		return r.appendJSONDict(dst, v, s, depth)
	}
	r.fail("tojson of %s", kindOf(v))
	return dst
}

func (s jsonStyle) newline(dst []byte, depth int) []byte {
	if !s.lines {
		return dst
	}
	dst = append(dst, '\n')
	for range depth {
		dst = append(dst, s.indent...)
	}
	return dst
}

func (r *run) appendJSONList(dst []byte, l *List, s jsonStyle, depth int) []byte {
	if len(l.Items) == 0 {
		return append(dst, "[]"...)
	}
	dst = append(dst, '[')
	for i, item := range l.Items {
		if i > 0 {
			dst = append(dst, s.item...)
		}
		dst = r.appendJSON(s.newline(dst, depth+1), item, s, depth+1)
	}
	return append(s.newline(dst, depth), ']')
}

func (r *run) appendJSONDict(dst []byte, d *Dict, s jsonStyle, depth int) []byte {
	if d.Len() == 0 {
		return append(dst, "{}"...)
	}
	keys := d.keys
	if s.sorted {
		keys = slices.Sorted(slices.Values(keys))
	}
	dst = append(dst, '{')
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, s.item...)
		}
		value, _ := d.Get(key)
		dst = appendJSONString(s.newline(dst, depth+1), key, s.ascii)
		dst = r.appendJSON(append(dst, s.key...), value, s, depth+1)
	}
	return append(s.newline(dst, depth), '}')
}

var jsonEscapes = map[rune]string{'"': `\"`, '\\': `\\`, '\n': `\n`, '\r': `\r`, '\t': `\t`, '\f': `\f`, '\b': `\b`}

// appendJSONString escapes what json.dumps escapes, and no more.
func appendJSONString(dst []byte, s string, ascii bool) []byte {
	dst = append(dst, '"')
	from := 0
	for i, c := range s {
		if c >= 0x20 && c != '"' && c != '\\' && (c < 0x7f || !ascii) {
			continue
		}
		dst = append(dst, s[from:i]...)
		from = i + utf8.RuneLen(c)
		switch escape, ok := jsonEscapes[c]; {
		case ok:
			dst = append(dst, escape...)
		case c > 0xffff:
			c -= 0x10000
			dst = appendHex(append(dst, `\u`...), 0xd800+c>>10, 4)
			dst = appendHex(append(dst, `\u`...), 0xdc00+c&0x3ff, 4)
		default:
			dst = appendHex(append(dst, `\u`...), c, 4)
		}
	}
	return append(append(dst, s[from:]...), '"')
}
