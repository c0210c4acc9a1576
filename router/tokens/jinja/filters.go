package jinja

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

type filterFunc func(r *run, v any, a values) any

// filters are those that chat templates use. A template that wants another is refused when it is parsed.
var filters = filterTable()

// textFilter is a filter of a value's text.
func textFilter(f func(string) string) filterFunc {
	return func(r *run, v any, _ values) any { return r.made(f(r.str(v))) }
}

func filterTable() map[string]filterFunc {
	return map[string]filterFunc{
		"tojson": toJSON, "items": items, "default": fallback, "d": fallback, "join": join, "list": toList,
		"map": mapped, "select": chosen(true), "reject": chosen(false), "selectattr": chosenBy(true), "rejectattr": chosenBy(false),
		"first": func(r *run, v any, _ values) any { return end(r, v, 0) },
		"last":  func(r *run, v any, _ values) any { return end(r, v, -1) },
		"int":   toInt, "float": toFloat, "abs": abs, "round": round, "indent": indent, "dictsort": dictSort, "sort": sorted,
		"unique": unique, "reverse": reverse, "replace": func(r *run, v any, a values) any { return replaceString(r, r.str(v), a) },
		"trim":       func(r *run, v any, a values) any { return strip(r, r.str(v), a, true, true) },
		"upper":      textFilter(upper),
		"lower":      textFilter(lower),
		"capitalize": textFilter(capitalize),
		"title":      textFilter(titleWords),
		"string":     textFilter(func(s string) string { return s }),
		"safe":       func(_ *run, v any, _ values) any { return v },
		"length":     count, "count": count, "attr": attr, "min": extreme(-1), "max": extreme(1), "sum": sum,
	}
}

func count(r *run, v any, _ values) any {
	n, ok := length(v)
	if !ok {
		return r.fail("%s has no length", kindOf(v))
	}
	if s, ok := v.(string); ok {
		r.step(len(s))
	}
	return int64(n)
}

// items lists pairs, of nothing for undefined.
func items(r *run, v any, _ values) any {
	switch v := v.(type) {
	case Undefined:
		return &List{}
	case *Dict:
		pairs := make([]any, v.Len())
		for i, k := range v.keys {
			pairs[i] = newTuple(k, v.values[i])
		}
		return r.items(pairs)
	}
	return r.fail("%s has no items", kindOf(v))
}

func fallback(_ *run, v any, a values) any {
	other, ok := a.arg(0, "default_value")
	if !ok {
		other = ""
	}
	also, _ := a.arg(1, "boolean")
	if _, undefined := v.(Undefined); undefined || truth(also) && !truth(v) {
		return other
	}
	return v
}

func join(r *run, v any, a values) any {
	separator := ""
	if s, ok := a.arg(0, "d"); ok {
		separator = r.str(s)
	}
	if name, ok := a.arg(1, "attribute"); ok {
		v = r.each(v, func(item any) any { return r.path(item, name) })
	}
	return joinItems(r, v, separator)
}

func toList(r *run, v any, _ values) any { return r.items(slices.Clone(r.iterate(v))) }

func toInt(_ *run, v any, a values) any {
	other, ok := a.arg(0, "default")
	if !ok {
		other = int64(0)
	}
	switch v := v.(type) {
	case string:
		s := strings.TrimFunc(v, isSpace)
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return n
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(f) < 1<<63 {
			return int64(f)
		}
	case float64:
		if math.Abs(v) < 1<<63 {
			return int64(v)
		}
	case bool, int64:
		n, _ := integer(v)
		return n
	}
	return other
}

func toFloat(_ *run, v any, a values) any {
	if f, ok := float(v); ok {
		return f
	}
	if s, ok := v.(string); ok {
		if f, err := strconv.ParseFloat(strings.TrimFunc(s, isSpace), 64); err == nil {
			return f
		}
	}
	if other, ok := a.arg(0, "default"); ok {
		return other
	}
	return 0.0
}

func abs(r *run, v any, _ values) any {
	if n, ok := integer(v); ok && n != math.MinInt64 {
		return max(n, -n)
	}
	if f, ok := v.(float64); ok {
		return math.Abs(f)
	}
	return r.fail("abs of %s", kindOf(v))
}

// round knows no other method than the common one.
func round(r *run, v any, a values) any {
	f, ok := float(v)
	digits, _ := a.arg(0, "precision")
	n, _ := integer(digits)
	if _, other := a.arg(1, "method"); !ok || other || n < 0 || n > 15 {
		return r.fail("round of %s so is not supported", kindOf(v))
	}
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(n), 64), 64)
	if err != nil {
		return r.fail("round of %v", f)
	}
	return rounded
}

func indent(r *run, v any, a values) any {
	prefix := "    "
	if width, ok := a.arg(0, "width"); ok {
		switch width := width.(type) {
		case string:
			prefix = width
		case int64:
			if width < 0 || width > maxNesting {
				return r.fail("indent by %d", width)
			}
			prefix = strings.Repeat(" ", int(width))
		}
	}
	first, _ := a.arg(1, "first")
	blank, _ := a.arg(2, "blank")
	lines := strings.Split(r.str(v), "\n")
	for i, line := range lines {
		if (i > 0 || truth(first)) && (line != "" || truth(blank)) {
			lines[i] = prefix + line
		}
	}
	return r.made(strings.Join(lines, "\n"))
}

// titleWords is Jinja's own title filter: words end at white space, hyphens and opening brackets.
func titleWords(s string) string {
	var b strings.Builder
	begin := true
	for _, c := range s {
		if begin {
			b.WriteRune(unicode.ToUpper(c))
		} else {
			b.WriteRune(unicode.ToLower(c))
		}
		begin = isSpace(c) || strings.ContainsRune("-({[<", c)
	}
	return b.String()
}
