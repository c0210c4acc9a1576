package jinja

import (
	"unicode/utf8"
)

// Undefined is the value of what is not there. Only some operations take it.
type Undefined struct{ what string }

// Big is an integer beyond 64 bits, in decimal. It can be written, not reckoned with.
type Big string

// List is a list or, to be written and compared as one, a tuple.
type List struct {
	Items []any
	tuple bool
}

// NewList makes a list of its items.
func NewList(items ...any) *List { return &List{Items: items} }

func newTuple(items ...any) *List { return &List{Items: items, tuple: true} }

// Dict is a dict with string keys, in the order of their first insertion, as Python keeps it.
type Dict struct {
	keys   []string
	values []any
	// index is of dicts too large to be searched.
	index map[string]int
}

// searched is how many keys are compared one by one.
const searched = 8

// NewDict makes a dict of alternating keys and values.
func NewDict(pairs ...any) *Dict {
	d := &Dict{}
	for i := 0; i+1 < len(pairs); i += 2 {
		d.Set(pairs[i].(string), pairs[i+1])
	}
	return d
}

// Len counts the keys.
func (d *Dict) Len() int { return len(d.keys) }

// Keys gives them in order. The slice is the dict's own.
func (d *Dict) Keys() []string { return d.keys }

// At gives a key and its value by position.
func (d *Dict) At(i int) (string, any) { return d.keys[i], d.values[i] }

func (d *Dict) find(key string) int {
	if d.index != nil {
		if at, ok := d.index[key]; ok {
			return at
		}
		return -1
	}
	for i, k := range d.keys {
		if k == key {
			return i
		}
	}
	return -1
}

// Get gives a key's value.
func (d *Dict) Get(key string) (any, bool) {
	if at := d.find(key); at >= 0 {
		return d.values[at], true
	}
	return nil, false
}

// Set gives a key a value; a key that is there keeps its place. Who hands a dict to a run must not change it any more.
func (d *Dict) Set(key string, value any) {
	if at := d.find(key); at >= 0 {
		d.values[at] = value
		return
	}
	d.keys, d.values = append(d.keys, key), append(d.values, value)
	switch n := len(d.keys); {
	case d.index != nil:
		d.index[key] = n - 1
	case n > searched:
		d.index = make(map[string]int, 2*n)
		for i, k := range d.keys {
			d.index[k] = i
		}
	}
}

// Copy gives a dict of its own with the same values.
func (d *Dict) Copy() *Dict {
	c := &Dict{}
	for i, k := range d.keys {
		c.Set(k, d.values[i])
	}
	return c
}

// namespace is what {% set ns.x = 1 %} may change.
type namespace struct{ vars map[string]any }

// function is something that can be called.
type function func(r *run, a values) any

// values are the arguments of a call.
type values struct {
	list  []any
	names []string
	named []any
}

// arg gives the value at a position or under a name.
func (a values) arg(at int, name string) (any, bool) {
	if at < len(a.list) {
		return a.list[at], true
	}
	for i, n := range a.names {
		if n == name {
			return a.named[i], true
		}
	}
	return nil, false
}

// truth is Python's.
func truth(v any) bool {
	switch v := v.(type) {
	case nil, Undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *List:
		return len(v.Items) > 0
	case *Dict:
		return v.Len() > 0
	}
	return true
}

// kindOf names a value's type in errors.
func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case Undefined:
		return "undefined " + v.what
	case bool:
		return "a bool"
	case int64, float64, Big:
		return "a number"
	case string:
		return "a string"
	case *List:
		return "a list"
	case *Dict:
		return "a dict"
	}
	return "a function"
}

// number reads a value that reckons: bool counts as Python has it.
func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case int64:
		return v, true
	}
	return 0, false
}

func float(v any) (float64, bool) {
	if f, ok := v.(float64); ok {
		return f, true
	}
	n, ok := integer(v)
	return float64(n), ok
}

// equal is Python's ==.
func equal(a, b any, depth int) bool {
	if depth > maxReprDepth {
		return false
	}
	if x, ok := float(a); ok {
		y, ok := float(b)
		if i, whole := integer(a); whole {
			if j, whole := integer(b); whole {
				return i == j
			}
		}
		return ok && x == y
	}
	switch x := a.(type) {
	case nil:
		return b == nil
	case Undefined:
		_, ok := b.(Undefined)
		return ok
	case string:
		y, ok := b.(string)
		return ok && x == y
	case Big:
		y, ok := b.(Big)
		return ok && x == y
	case *List:
		y, ok := b.(*List)
		if !ok || len(x.Items) != len(y.Items) || x.tuple != y.tuple {
			return false
		}
		for i := range x.Items {
			if !equal(x.Items[i], y.Items[i], depth+1) {
				return false
			}
		}
		return true
	case *Dict:
		y, ok := b.(*Dict)
		if !ok || x.Len() != y.Len() {
			return false
		}
		for i, k := range x.keys {
			other, ok := y.Get(k)
			if !ok || !equal(x.values[i], other, depth+1) {
				return false
			}
		}
		return true
	case *namespace:
		y, ok := b.(*namespace)
		return ok && x == y
	}
	return false
}

// length is Python's len; of a string, the characters.
func length(v any) (int, bool) {
	switch v := v.(type) {
	case string:
		return utf8.RuneCountInString(v), true
	case *List:
		return len(v.Items), true
	case *Dict:
		return v.Len(), true
	case Undefined:
		return 0, true
	}
	return 0, false
}
