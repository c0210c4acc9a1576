package jinja

import (
	"cmp"
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

// each makes a list of what f gives for the items.
func (r *run) each(v any, f func(any) any) any {
	var made []any
	for _, item := range r.iterate(v) {
		if !r.step(16) {
			return nil
		}
		made = append(made, f(item))
	}
	return r.items(made)
}

// path follows an attribute's name with dots in it, or an index.
func (r *run) path(v, name any) any {
	if n, ok := integer(name); ok {
		return (&item{&literal{v}, &literal{n}}).eval(r)
	}
	s, ok := name.(string)
	if !ok {
		return r.fail("an attribute by %s", kindOf(name))
	}
	for part := range strings.SplitSeq(s, ".") {
		var key any = part
		if n, err := strconv.ParseInt(part, 10, 32); err == nil {
			key = n
		}
		v = (&item{&literal{v}, &literal{key}}).eval(r)
	}
	return v
}

func attr(r *run, v any, a values) any { return r.attribute(v, r.textArg(a, 0)) }

// mapped is map(attribute="x") or map("filter", its arguments).
func mapped(r *run, v any, a values) any {
	if name, ok := a.arg(1<<30, "attribute"); ok {
		other, hasOther := a.arg(1<<30, "default")
		return r.each(v, func(item any) any {
			found := r.path(item, name)
			if _, undefined := found.(Undefined); undefined && hasOther {
				return other
			}
			return found
		})
	}
	f := r.filters[r.textArg(a, 0)]
	if f == nil {
		return r.fail("map by a filter that is not supported")
	}
	rest := values{list: a.list[1:], names: a.names, named: a.named}
	return r.each(v, func(item any) any { return f(r, item, rest) })
}

// chosen is select and reject: by a test, or by truth.
func chosen(keep bool) filterFunc {
	return func(r *run, v any, a values) any {
		return r.chosen(v, a, keep, func(item any) any { return item })
	}
}

// chosenBy is selectattr and rejectattr.
func chosenBy(keep bool) filterFunc {
	return func(r *run, v any, a values) any {
		name := must(a, 0)
		if len(a.list) > 0 {
			a.list = a.list[1:]
		}
		return r.chosen(v, a, keep, func(item any) any { return r.path(item, name) })
	}
}

func (r *run) chosen(v any, a values, keep bool, of func(any) any) any {
	is := func(_ *run, v any, _ []any) bool { return truth(v) }
	var args []any
	if len(a.list) > 0 {
		t := tests[r.textArg(a, 0)]
		if t == nil {
			return r.fail("a test that is not supported")
		}
		is, args = t, a.list[1:]
	}
	var kept []any
	for _, item := range r.iterate(v) {
		if !r.step(16) {
			return nil
		}
		if is(r, of(item), args) == keep {
			kept = append(kept, item)
		}
	}
	return r.items(kept)
}

func end(r *run, v any, at int) any {
	all := r.iterate(v)
	if len(all) == 0 {
		return Undefined{"first or last of nothing"}
	}
	if at < 0 {
		at = len(all) - 1
	}
	return all[at]
}

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

// sortKey compares as Jinja's sort does: text without its case, unless it is asked for.
func (r *run) order(a, b any, caseSensitive bool) int {
	s, ok := a.(string)
	t, also := b.(string)
	if ok && also {
		if !caseSensitive {
			s, t = strings.ToLower(s), strings.ToLower(t)
		}
		return strings.Compare(s, t)
	}
	x, ok := float(a)
	y, also := float(b)
	if !ok || !also {
		r.fail("%s and %s have no order", kindOf(a), kindOf(b))
	}
	return cmp.Compare(x, y)
}

func dictSort(r *run, v any, a values) any {
	sensitive, _ := a.arg(0, "case_sensitive")
	by, _ := a.arg(1, "by")
	reversed, _ := a.arg(2, "reverse")
	at := 0
	if by == "value" {
		at = 1
	}
	pairs, ok := items(r, v, values{}).(*List)
	if !ok {
		return nil
	}
	return r.sorted(pairs.Items, truth(sensitive), truth(reversed), func(pair any) any { return pair.(*List).Items[at] })
}

func sorted(r *run, v any, a values) any {
	reversed, _ := a.arg(0, "reverse")
	sensitive, _ := a.arg(1, "case_sensitive")
	by := func(item any) any { return item }
	if name, ok := a.arg(2, "attribute"); ok && name != nil {
		by = func(item any) any { return r.path(item, name) }
	}
	return r.sorted(slices.Clone(r.iterate(v)), truth(sensitive), truth(reversed), by)
}

func (r *run) sorted(all []any, sensitive, reversed bool, by func(any) any) any {
	r.step(256 * len(all))
	slices.SortStableFunc(all, func(a, b any) int {
		n := r.order(by(a), by(b), sensitive)
		if reversed {
			return -n
		}
		return n
	})
	return r.items(all)
}

func unique(r *run, v any, a values) any {
	if len(a.list)+len(a.named) > 0 {
		return r.fail("unique with arguments is not supported")
	}
	var kept []any
	for _, item := range r.iterate(v) {
		if !r.step(16 * (1 + len(kept))) {
			return nil
		}
		if !slices.ContainsFunc(kept, func(k any) bool { return equal(fold(k), fold(item), 0) }) {
			kept = append(kept, item)
		}
	}
	return r.items(kept)
}

func fold(v any) any {
	if s, ok := v.(string); ok {
		return strings.ToLower(s)
	}
	return v
}

func reverse(r *run, v any, _ values) any {
	all := slices.Clone(r.iterate(v))
	slices.Reverse(all)
	if _, ok := v.(string); ok {
		return joinItems(r, NewList(all...), "")
	}
	return r.items(all)
}

func extreme(sign int) filterFunc {
	return func(r *run, v any, a values) any {
		if len(a.list)+len(a.named) > 0 {
			return r.fail("min and max with arguments are not supported")
		}
		all := r.iterate(v)
		if len(all) == 0 {
			return Undefined{"min or max of nothing"}
		}
		best := all[0]
		for _, item := range all[1:] {
			if sign*r.order(item, best, false) > 0 {
				best = item
			}
		}
		return best
	}
}

func sum(r *run, v any, a values) any {
	var total any = int64(0)
	if start, ok := a.arg(1, "start"); ok {
		total = start
	}
	name, by := a.arg(0, "attribute")
	for _, item := range r.iterate(v) {
		if by {
			item = r.path(item, name)
		}
		total = r.reckon("+", total, item)
	}
	return total
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
