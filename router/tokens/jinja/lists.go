package jinja

import (
	"strconv"
	"strings"
)

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
