package jinja

import (
	"unicode/utf8"
)

func (a *attribute) eval(r *run) any {
	of := a.of.eval(r)
	if !r.step(0) {
		return nil
	}
	return r.attribute(of, a.name)
}

// attribute looks for an attribute first and for an item second: a dict's key that a method has the name of is
// reached by d["items"] only, as in Jinja.
func (r *run) attribute(of any, name string) any {
	if pythonOnly(of, name) {
		return r.fail("%s.%s is not supported", kindOf(of), name)
	}
	if unsafe(of, name) {
		return Undefined{name}
	}
	switch v := of.(type) {
	case Undefined:
		return r.fail("undefined %s has no attribute %s", v.what, name)
	case *Dict:
		if m := methodOf(of, name); m != nil {
			return m
		}
		if value, ok := v.Get(name); ok {
			return value
		}
	case *namespace:
		if value, ok := v.vars[name]; ok {
			return value
		}
	case *loopInfo:
		return v.attribute(r, name)
	default:
		if m := methodOf(of, name); m != nil {
			return m
		}
	}
	return Undefined{name}
}

func (i *item) eval(r *run) any {
	of, key := i.of.eval(r), i.key.eval(r)
	if !r.step(0) {
		return nil
	}
	if s, ok := key.(string); ok {
		if d, ok := of.(*Dict); ok {
			if value, ok := d.Get(s); ok {
				return value
			}
		}
		return r.attribute(of, s)
	}
	n, ok := integer(key)
	if _, undefined := of.(Undefined); undefined {
		return r.fail("undefined has no items")
	}
	if !ok {
		return Undefined{"item"}
	}
	switch v := of.(type) {
	case *List:
		if n < 0 {
			n += int64(len(v.Items))
		}
		if n >= 0 && n < int64(len(v.Items)) {
			return v.Items[n]
		}
	case string:
		r.step(len(v))
		chars := []rune(v)
		if n < 0 {
			n += int64(len(chars))
		}
		if n >= 0 && n < int64(len(chars)) {
			return string(chars[n])
		}
	}
	return Undefined{"item"}
}

func (s *slice) eval(r *run) any {
	of := s.of.eval(r)
	part := func(e expr) (int64, bool) {
		if e == nil {
			return 0, false
		}
		v := e.eval(r)
		if v == nil {
			return 0, false
		}
		n, ok := integer(v)
		if !ok {
			r.fail("a slice by %s", kindOf(v))
		}
		return n, ok
	}
	from, hasFrom := part(s.from)
	to, hasTo := part(s.to)
	step, hasStep := part(s.step)
	if !hasStep {
		step = 1
	}
	n, ok := length(of)
	_, undefined := of.(Undefined)
	_, isDict := of.(*Dict)
	if !ok || undefined || isDict || step == 0 || r.err != nil {
		return r.fail("%s cannot be sliced so", kindOf(of))
	}
	first, last := bounds(n, from, to, step, hasFrom, hasTo)
	if v, ok := of.(string); ok {
		return r.sliceString(v, first, last, step, n)
	}
	var items []any
	for i := first; step > 0 && i < last || step < 0 && i > last; i += step {
		items = append(items, of.(*List).Items[i])
	}
	return r.items(items)
}

// bounds are those of Python's slices.
func bounds(length int, from, to, step int64, hasFrom, hasTo bool) (first, last int64) {
	n := int64(length)
	low, high := int64(0), n
	if step < 0 {
		low, high = -1, n-1
	}
	clamp := func(v int64) int64 {
		if v < 0 {
			v += n
		}
		return min(max(v, low), high)
	}
	first, last = low, high
	if step < 0 {
		first, last = high, low
	}
	if hasFrom {
		first = clamp(from)
	}
	if hasTo {
		last = clamp(to)
	}
	return first, last
}

func (r *run) sliceString(s string, first, last, step int64, n int) any {
	r.step(len(s))
	if step == 1 && n == len(s) { // one byte a character
		return s[first:max(first, last)]
	}
	chars := []rune(s)
	var b []byte
	for i := first; step > 0 && i < last || step < 0 && i > last; i += step {
		b = utf8.AppendRune(b, chars[i])
	}
	return r.made(string(b))
}
