package jinja

import "fmt"

func (t *text) exec(r *run) flow {
	r.write(t.text)
	return flowNext
}

func (p *print) exec(r *run) flow {
	switch v := p.value.eval(r); v := v.(type) {
	case string:
		r.write(v)
	case Undefined:
	default:
		r.write(r.str(v))
	}
	return flowNext
}

func (b block) exec(r *run) flow {
	for _, s := range b {
		if r.err != nil {
			return flowNext
		}
		if f := s.exec(r); f != flowNext {
			return f
		}
	}
	return flowNext
}

func (b *branch) exec(r *run) flow {
	for i, cond := range b.conds {
		if truth(cond.eval(r)) {
			return b.bodies[i].exec(r)
		}
		if r.err != nil {
			return flowNext
		}
	}
	if len(b.bodies) > len(b.conds) {
		return b.bodies[len(b.conds)].exec(r)
	}
	return flowNext
}

func (j *jump) exec(*run) flow { return j.flow }

func (s *scoped) exec(r *run) flow { return s.body.exec(r) }

// iterate lists what a loop goes over: characters, items or keys.
func (r *run) iterate(v any) []any {
	switch v := v.(type) {
	case *List:
		return v.Items
	case *Dict:
		items := make([]any, v.Len())
		for i, k := range v.keys {
			items[i] = k
		}
		r.step(16 * len(items))
		return items
	case string:
		if len(v) > maxItems {
			r.err = fmt.Errorf("%w: a loop over %d bytes", ErrLimit, len(v))
			return nil
		}
		var items []any
		for _, c := range v {
			items = append(items, string(c))
		}
		r.step(16 * len(items))
		return items
	case Undefined:
		return nil
	}
	r.fail("nothing is in %s", kindOf(v))
	return nil
}

// unpack assigns an item to a loop's or a set's names.
func (r *run) unpack(targets []string, v any) {
	if len(targets) == 1 {
		r.scope.set(targets[0], v)
		return
	}
	parts, ok := v.(*List)
	if !ok || len(parts.Items) != len(targets) {
		r.fail("%s does not give %d values", kindOf(v), len(targets))
		return
	}
	for i, n := range targets {
		r.scope.set(n, parts.Items[i])
	}
}

func (l *loop) exec(r *run) flow {
	items := r.iterate(l.over.eval(r))
	r.push()
	defer r.pop()
	if l.cond != nil {
		items = l.selected(r, items)
	}
	if len(items) == 0 || r.err != nil {
		return l.otherwise.exec(r)
	}
	info := &loopInfo{items: items, parent: r.scope.parent}
	for i := range items {
		if !r.step(0) {
			return flowNext
		}
		info.at = i
		r.scope.names, r.scope.values = r.scope.names[:0], r.scope.values[:0]
		r.scope.set("loop", info)
		r.unpack(l.targets, items[i])
		if l.body.exec(r) == flowBreak {
			break
		}
	}
	return flowNext
}

// selected are the items that the loop's condition takes; it sees the loop's names, but no loop.
func (l *loop) selected(r *run, items []any) []any {
	var kept []any
	for _, item := range items {
		if !r.step(0) {
			return nil
		}
		r.scope.names, r.scope.values = r.scope.names[:0], r.scope.values[:0]
		r.unpack(l.targets, item)
		if truth(l.cond.eval(r)) {
			kept = append(kept, item)
		}
	}
	return kept
}

// loopInfo is the variable loop.
type loopInfo struct {
	items  []any
	at     int
	parent *scope
}

func (l *loopInfo) attribute(r *run, name string) any {
	n := len(l.items)
	switch name {
	case "index":
		return int64(l.at + 1)
	case "index0":
		return int64(l.at)
	case "revindex":
		return int64(n - l.at)
	case "revindex0":
		return int64(n - l.at - 1)
	case "first":
		return l.at == 0
	case "last":
		return l.at == n-1
	case "length":
		return int64(n)
	case "previtem":
		if l.at > 0 {
			return l.items[l.at-1]
		}
		return Undefined{"previtem"}
	case "nextitem":
		if l.at+1 < n {
			return l.items[l.at+1]
		}
		return Undefined{"nextitem"}
	case "cycle":
		return function(func(r *run, a values) any {
			if len(a.list) == 0 {
				return r.fail("loop.cycle of nothing")
			}
			return a.list[l.at%len(a.list)]
		})
	}
	return r.fail("loop.%s is not supported", name)
}

func (s *set) exec(r *run) flow {
	var v any
	if s.value != nil {
		v = s.value.eval(r)
	} else {
		v = r.capture(s.body)
		for i := range s.filters {
			v = s.filters[i].to(r, v)
		}
	}
	if r.err != nil {
		return flowNext
	}
	if s.attribute == "" {
		r.unpack(s.targets, v)
		return flowNext
	}
	of, _ := r.scope.get(s.targets[0])
	ns, ok := of.(*namespace)
	if !ok {
		r.fail("%s is no namespace, so %s.%s cannot be set", s.targets[0], s.targets[0], s.attribute)
		return flowNext
	}
	ns.vars[s.attribute] = v
	return flowNext
}

func (m *macroDef) exec(r *run) flow {
	r.scope.set(m.name, m.function(r.scope))
	return flowNext
}

// function makes a macro callable. It sees the variables of where it was defined.
func (m *macroDef) function(defined *scope) function {
	return func(r *run, a values) any {
		if r.calls++; r.calls > maxCalls {
			r.err = fmt.Errorf("%w: macros call each other more than %d deep", ErrLimit, maxCalls)
			return nil
		}
		calling := r.scope
		r.scope = &scope{parent: defined}
		m.bind(r, a)
		v := r.capture(m.body)
		r.scope = calling
		r.calls--
		return v
	}
}

// bind gives the parameters their values.
func (m *macroDef) bind(r *run, a values) {
	if len(a.list) > len(m.params) {
		r.fail("macro %s takes %d arguments, not %d", m.name, len(m.params), len(a.list))
		return
	}
	known := 0
	for i, p := range m.params {
		v, given := a.arg(i, p)
		if given && i >= len(a.list) {
			known++
		}
		if without := len(m.params) - len(m.defaults); !given && i >= without {
			v, given = m.defaults[i-without].eval(r), true
		}
		if !given {
			v = Undefined{p}
		}
		r.scope.set(p, v)
	}
	for i, n := range a.names {
		if n == "caller" {
			r.scope.set(n, a.named[i])
			known++
		}
	}
	if known != len(a.names) {
		r.fail("macro %s got an argument it has no name for", m.name)
	}
}

func (c *callBlock) exec(r *run) flow {
	args := r.values(c.call.args)
	args.names = append(append([]string(nil), args.names...), "caller")
	args.named = append(args.named, c.caller.function(r.scope))
	f, ok := c.call.of.eval(r).(function)
	if !ok {
		r.fail("{%% call %%} of something that cannot be called")
		return flowNext
	}
	r.write(r.str(f(r, args)))
	return flowNext
}

func (f *filterBlock) exec(r *run) flow {
	var v any = r.capture(f.body)
	for i := range f.filters {
		v = f.filters[i].to(r, v)
	}
	r.write(r.str(v))
	return flowNext
}

func (w *with) exec(r *run) flow {
	values := make([]any, len(w.values))
	for i, e := range w.values {
		values[i] = e.eval(r)
	}
	r.push()
	defer r.pop()
	for i, n := range w.names {
		r.scope.set(n, values[i])
	}
	return w.body.exec(r)
}
