package jinja

import (
	"fmt"
	"math"
	"time"
)

// run is one rendering. err is set once and ends it: from then on values mean nothing and nothing is written.
type run struct {
	out   []byte
	limit int // of out, and of strings
	err   error
	steps int
	calls int
	scope *scope
	now   func() time.Time
	// filters are those by name, for map("name").
	filters map[string]filterFunc
}

// scope holds the variables of one block. Names are few, so they are compared one by one.
type scope struct {
	names  []string
	values []any
	parent *scope
}

func (s *scope) set(name string, value any) {
	for i, n := range s.names {
		if n == name {
			s.values[i] = value
			return
		}
	}
	s.names, s.values = append(s.names, name), append(s.values, value)
}

func (s *scope) get(name string) (any, bool) {
	for ; s != nil; s = s.parent {
		for i, n := range s.names {
			if n == name {
				return s.values[i], true
			}
		}
	}
	return nil, false
}

// Options of a rendering.
type Options struct {
	// Now is the clock that a template asks for the day. Default time.Now.
	Now func() time.Time
	// MaxBytes bounds the text. Default and maximum MaxTextBytes.
	MaxBytes int
}

// Render appends the text of the template with the variables, a dict, to dst. Values must be of the package's types, and
// nobody may change them meanwhile. On an error dst comes back as it was.
func (t *Template) Render(dst []byte, vars *Dict, o Options) (_ []byte, err error) {
	r := &run{out: dst, limit: MaxTextBytes, steps: maxSteps, now: o.Now, filters: filters}
	if o.MaxBytes > 0 {
		r.limit = min(o.MaxBytes, MaxTextBytes)
	}
	r.limit += len(dst)
	if r.now == nil {
		r.now = time.Now
	}
	r.scope = &scope{parent: &scope{names: vars.keys, values: vars.values, parent: globals}}
	t.body.exec(r)
	if r.err != nil {
		return dst, r.err
	}
	return r.out, nil
}

// fail ends the run.
func (r *run) fail(format string, args ...any) any {
	if r.err == nil {
		r.err = fmt.Errorf("jinja: "+format, args...)
	}
	return nil
}

// step counts work of a size in bytes. It is false once the run is over.
func (r *run) step(bytes int) bool {
	if r.steps -= 1 + bytes/bytesPerStep; r.steps < 0 && r.err == nil {
		r.err = fmt.Errorf("%w: more than %d steps", ErrLimit, maxSteps)
	}
	return r.err == nil
}

// write appends text to what is rendered.
func (r *run) write(s string) {
	if !r.step(len(s)) {
		return
	}
	if len(r.out)+len(s) > r.limit {
		r.err = fmt.Errorf("%w: more than %d bytes of text", ErrLimit, r.limit)
		return
	}
	r.out = append(r.out, s...)
}

// made counts a string that the template made.
func (r *run) made(s string) any {
	if len(s) > MaxTextBytes {
		r.err = fmt.Errorf("%w: a string of %d bytes", ErrLimit, len(s))
	}
	r.step(len(s))
	return s
}

// str is a value as text; a function has none.
func (r *run) str(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case function, *namespace:
		r.fail("%s has no text", kindOf(v))
		return ""
	}
	s := str(v)
	r.step(len(s))
	return s
}

// capture runs a body in a scope of its own and returns its text.
func (r *run) capture(b block) string {
	before := len(r.out)
	r.push()
	b.exec(r)
	r.pop()
	if r.err != nil {
		return ""
	}
	s := string(r.out[before:])
	r.out = r.out[:before]
	r.step(len(s))
	return s
}

func (r *run) push() { r.scope = &scope{parent: r.scope} }
func (r *run) pop()  { r.scope = r.scope.parent }

func (l *literal) eval(*run) any { return l.value }

func (l *list) eval(r *run) any {
	items := make([]any, len(l.items))
	for i, e := range l.items {
		items[i] = e.eval(r)
	}
	r.step(0)
	return &List{items, l.tuple}
}

func (d *dict) eval(r *run) any {
	made := &Dict{}
	for i := range d.keys {
		key, ok := d.keys[i].eval(r).(string)
		if !ok {
			return r.fail("a dict whose keys are no strings is not supported")
		}
		made.Set(key, d.values[i].eval(r))
	}
	r.step(0)
	return made
}

func (n *name) eval(r *run) any {
	if !r.step(0) {
		return nil
	}
	if v, ok := r.scope.get(n.name); ok {
		return v
	}
	return Undefined{n.name}
}

func (n *not) eval(r *run) any { return !truth(n.of.eval(r)) }

func (a *and) eval(r *run) any {
	if left := a.left.eval(r); !truth(left) {
		return left
	}
	return a.right.eval(r)
}

func (o *or) eval(r *run) any {
	if left := o.left.eval(r); truth(left) {
		return left
	}
	return o.right.eval(r)
}

func (c *conditional) eval(r *run) any {
	switch {
	case truth(c.cond.eval(r)):
		return c.then.eval(r)
	case c.otherwise != nil:
		return c.otherwise.eval(r)
	}
	return Undefined{"else"}
}

func (m *minus) eval(r *run) any {
	v := m.of.eval(r)
	if f, ok := v.(float64); ok {
		return -f
	}
	if n, ok := integer(v); ok && n != math.MinInt64 {
		return -n
	}
	return r.fail("%s has no negative", kindOf(v))
}

func (p *plus) eval(r *run) any {
	v := p.of.eval(r)
	if _, ok := float(v); !ok {
		return r.fail("%s takes no sign", kindOf(v))
	}
	return v
}

func (r *run) values(a arguments) values {
	v := values{names: a.names}
	if len(a.positional) > 0 {
		v.list = make([]any, len(a.positional))
		for i, e := range a.positional {
			v.list[i] = e.eval(r)
		}
	}
	if len(a.named) > 0 {
		v.named = make([]any, len(a.named))
		for i, e := range a.named {
			v.named[i] = e.eval(r)
		}
	}
	return v
}

func (c *call) eval(r *run) any {
	of := c.of.eval(r)
	args := r.values(c.args)
	if !r.step(0) {
		return nil
	}
	f, ok := of.(function)
	if !ok {
		return r.fail("%s cannot be called", kindOf(of))
	}
	return f(r, args)
}

func (f *filter) eval(r *run) any { return f.to(r, f.of.eval(r)) }

func (f *filter) to(r *run, v any) any {
	args := r.values(f.args)
	if !r.step(0) {
		return nil
	}
	return f.apply(r, v, args)
}

func (t *test) eval(r *run) any {
	v := t.of.eval(r)
	var args []any
	for _, e := range t.args {
		args = append(args, e.eval(r))
	}
	if !r.step(0) {
		return nil
	}
	return t.apply(r, v, args) != t.not
}
