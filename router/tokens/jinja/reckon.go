package jinja

import (
	"fmt"
	"math"
	"strings"
)

func (b *binary) eval(r *run) any {
	left, right := b.left.eval(r), b.right.eval(r)
	if !r.step(0) {
		return nil
	}
	switch b.op {
	case "~":
		return r.made(r.str(left) + r.str(right))
	case "+":
		if s, ok := left.(string); ok {
			if t, ok := right.(string); ok {
				return r.made(s + t)
			}
		}
		if a, ok := left.(*List); ok {
			if b, ok := right.(*List); ok {
				return r.items(append(append([]any(nil), a.Items...), b.Items...))
			}
		}
	case "*":
		if v, ok := r.repeat(left, right); ok {
			return v
		}
	}
	return r.reckon(b.op, left, right)
}

// items makes a list that the template built.
func (r *run) items(items []any) any {
	if len(items) > maxItems {
		r.err = fmt.Errorf("%w: a list of %d items", ErrLimit, len(items))
		return nil
	}
	r.step(len(items) * 16)
	return &List{Items: items}
}

// repeat multiplies a string or list.
func (r *run) repeat(left, right any) (any, bool) {
	n, ok := integer(right)
	if !ok {
		if n, ok = integer(left); !ok {
			return nil, false
		}
		left = right
	}
	n = max(n, 0)
	switch v := left.(type) {
	case string:
		if n > 0 && int64(len(v)) > MaxTextBytes/n {
			r.err = fmt.Errorf("%w: a string of %d times %d bytes", ErrLimit, n, len(v))
			return nil, true
		}
		return r.made(strings.Repeat(v, int(n))), true
	case *List:
		if n > 0 && int64(len(v.Items)) > maxItems/n {
			r.err = fmt.Errorf("%w: a list of %d times %d items", ErrLimit, n, len(v.Items))
			return nil, true
		}
		var items []any
		for range n {
			items = append(items, v.Items...)
		}
		return r.items(items), true
	}
	return nil, false
}

// reckon applies an operator to numbers.
func (r *run) reckon(op string, left, right any) any {
	i, whole := integer(left)
	j, both := integer(right)
	if whole && both && op != "/" {
		if v, ok := reckonInt(op, i, j); ok {
			return v
		}
	}
	x, ok := float(left)
	y, also := float(right)
	if !ok || !also {
		return r.fail("%s %s %s makes no sense", kindOf(left), op, kindOf(right))
	}
	switch {
	case whole && both && op != "/" && !(op == "**" && j < 0 && i != 0):
		return r.fail("%d %s %d is beyond 64 bits, or no number", i, op, j)
	case y == 0 && (op == "/" || op == "//" || op == "%"):
		return r.fail("division by zero")
	}
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "/":
		return x / y
	case "//":
		return math.Floor(x / y)
	case "%":
		m := math.Mod(x, y)
		if m != 0 && (m < 0) != (y < 0) {
			m += y
		}
		return m
	}
	return math.Pow(x, y)
}

// reckonInt stays within 64 bits, where ok is true.
func reckonInt(op string, i, j int64) (v int64, ok bool) {
	switch op {
	case "+":
		v = i + j
		return v, (v > i) == (j > 0)
	case "-":
		v = i - j
		return v, (v < i) == (j > 0)
	case "*":
		if i == 0 || j == 0 {
			return 0, true
		}
		v = i * j
		return v, v/j == i && !(i == -1 && j == math.MinInt64) && !(j == -1 && i == math.MinInt64)
	case "//", "%":
		if j == 0 || i == math.MinInt64 && j == -1 {
			return 0, false
		}
		q, m := i/j, i%j
		if m != 0 && (m < 0) != (j < 0) {
			q, m = q-1, m+j
		}
		if op == "%" {
			return m, true
		}
		return q, true
	case "**":
		if j < 0 || j > 64 {
			return 0, false
		}
		v = 1
		for range j {
			if v, ok = reckonInt("*", v, i); !ok {
				return 0, false
			}
		}
		return v, true
	}
	return 0, false
}

func (c *compare) eval(r *run) any {
	left := c.first.eval(r)
	for i, op := range c.ops {
		right := c.rest[i].eval(r)
		if !r.step(0) {
			return nil
		}
		if !r.compare(op, left, right) {
			return false
		}
		left = right
	}
	return true
}

func (r *run) compare(op string, left, right any) bool {
	switch op {
	case "==":
		return equal(left, right, 0)
	case "!=":
		return !equal(left, right, 0)
	case "in":
		return r.contains(right, left)
	case "not in":
		return !r.contains(right, left)
	}
	if s, ok := left.(string); ok {
		if t, ok := right.(string); ok {
			return ordered(op, strings.Compare(s, t))
		}
	}
	x, ok := float(left)
	y, also := float(right)
	if !ok || !also {
		r.fail("%s %s %s makes no sense", kindOf(left), op, kindOf(right))
		return false
	}
	switch {
	case x < y:
		return ordered(op, -1)
	case x > y:
		return ordered(op, 1)
	}
	return ordered(op, 0)
}

func ordered(op string, sign int) bool {
	switch op {
	case "<":
		return sign < 0
	case "<=":
		return sign <= 0
	case ">":
		return sign > 0
	}
	return sign >= 0
}

// contains is Python's in.
func (r *run) contains(in, what any) bool {
	switch in := in.(type) {
	case Undefined:
		return false
	case string:
		s, ok := what.(string)
		if !ok {
			r.fail("%s in a string makes no sense", kindOf(what))
			return false
		}
		r.step(len(in))
		return strings.Contains(in, s)
	case *List:
		r.step(16 * len(in.Items))
		for _, item := range in.Items {
			if equal(item, what, 0) {
				return true
			}
		}
		return false
	case *Dict:
		s, ok := what.(string)
		if !ok {
			return false
		}
		_, ok = in.Get(s)
		return ok
	}
	r.fail("nothing can be in %s", kindOf(in))
	return false
}
