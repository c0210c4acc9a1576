package jinja

// LoopsOverContent says whether the template goes through the parts of a message's content, by what engines look for in its
// tree: a loop over the content of a variable that stands for a message. Those are the targets of loops over messages, and
// copies of it; with wellKnown, those called message, msg and m instead.
func (t *Template) LoopsOverContent(wellKnown bool) bool {
	w := &walker{}
	w.block(t.body)
	messages := []string{"message", "msg", "m"}
	if !wellKnown {
		messages = w.messageNames()
	}
	for _, l := range w.loops {
		for _, name := range messages {
			if reads(l.over, name, "content") {
				return true
			}
		}
	}
	return false
}

// walker collects the loops and assignments of a template.
type walker struct {
	loops []*loop
	sets  []*set
}

func (w *walker) block(b block) {
	for _, s := range b {
		switch s := s.(type) {
		case *branch:
			for _, body := range s.bodies {
				w.block(body)
			}
		case *loop:
			w.loops = append(w.loops, s)
			w.block(s.body)
			w.block(s.otherwise)
		case *set:
			w.sets = append(w.sets, s)
			w.block(s.body)
		case *macroDef:
			w.block(s.body)
		case *callBlock:
			w.block(s.caller.body)
		case *filterBlock:
			w.block(s.body)
		case *with:
			w.block(s.body)
		case *scoped:
			w.block(s.body)
		}
	}
}

// messageNames are the targets of loops over messages, or over a variable that was made of it.
func (w *walker) messageNames() []string {
	lists := []string{"messages"}
	for i := 0; i < len(lists) && len(lists) <= len(w.sets)+1; i++ {
		for _, s := range w.sets {
			if s.value != nil && s.attribute == "" && len(s.targets) == 1 && s.targets[0] != lists[i] && reads(s.value, lists[i], "") {
				lists = append(lists, s.targets[0])
			}
		}
	}
	var names []string
	for _, l := range w.loops {
		for _, of := range lists {
			if len(l.targets) == 1 && reads(l.over, of, "") {
				names = append(names, l.targets[0])
				break
			}
		}
	}
	return names
}

// reads says whether an expression is a variable, or with a key one of its members, be it filtered, tested or sliced.
func reads(e expr, variable, key string) bool {
	switch e := e.(type) {
	case *filter:
		return e.of != nil && reads(e.of, variable, key)
	case *test:
		return reads(e.of, variable, key)
	case *slice:
		return reads(e.of, variable, key)
	case *name:
		return key == "" && e.name == variable
	case *attribute:
		return key == e.name && isName(e.of, variable)
	case *item:
		k, ok := e.key.(*literal)
		return ok && key != "" && k.value == key && isName(e.of, variable)
	}
	return false
}

func isName(e expr, variable string) bool {
	n, ok := e.(*name)
	return ok && n.name == variable
}
