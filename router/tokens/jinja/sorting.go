package jinja

import (
	"cmp"
	"slices"
	"strings"
)

// order compares as Jinja's sort does: text without its case, unless it is asked for.
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
