package jinja

func (p *parser) branch() (stmt, error) {
	var s branch
	for {
		cond, err := p.tuple(false)
		if err == nil {
			err = p.end()
		}
		if err != nil {
			return nil, err
		}
		b, end, err := p.body("elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		s.conds, s.bodies = append(s.conds, cond), append(s.bodies, b)
		switch end {
		case "elif":
			continue
		case "else":
			b, err = p.inner("endif")
			s.bodies = append(s.bodies, b)
			return &s, err
		}
		return &s, p.end()
	}
}

func (p *parser) loop() (stmt, error) {
	var s loop
	var err error
	if s.targets, err = p.targets(); err != nil {
		return nil, err
	}
	if err = p.expect(kindName, "in"); err != nil {
		return nil, err
	}
	if s.over, err = p.tuple(false); err != nil {
		return nil, err
	}
	if p.word("if") {
		if s.cond, err = p.expression(); err != nil {
			return nil, err
		}
	}
	if p.at(kindName, "recursive") {
		return nil, p.fail("recursive loops are not supported")
	}
	if err = p.end(); err != nil {
		return nil, err
	}
	p.loops++
	b, end, err := p.body("else", "endfor")
	p.loops--
	if err != nil {
		return nil, err
	}
	s.body = b
	if end == "else" {
		s.otherwise, err = p.inner("endfor")
		return &s, err
	}
	return &s, p.end()
}

// targets reads one name or several with commas, in parentheses or not.
func (p *parser) targets() ([]string, error) {
	bracket := p.op("(")
	var names []string
	for {
		n, err := p.identifier()
		if err != nil {
			return nil, err
		}
		names = append(names, n)
		if !p.op(",") {
			break
		}
	}
	if bracket {
		return names, p.expect(kindOperator, ")")
	}
	return names, nil
}

func (p *parser) set() (stmt, error) {
	var s set
	var err error
	if s.targets, err = p.targets(); err != nil {
		return nil, err
	}
	if len(s.targets) == 1 && p.op(".") {
		if s.attribute, err = p.identifier(); err != nil {
			return nil, err
		}
	}
	if p.op("=") {
		if s.value, err = p.tuple(true); err != nil {
			return nil, err
		}
		return &s, p.end()
	}
	if p.op("|") {
		if s.filters, err = p.filters(); err != nil {
			return nil, err
		}
	}
	s.body, err = p.inner("endset")
	return &s, err
}

func (p *parser) macro() (stmt, error) {
	n, err := p.identifier()
	if err != nil {
		return nil, err
	}
	m := &macroDef{name: n}
	if err := p.params(m); err != nil {
		return nil, err
	}
	return m, p.macroBody(m, "endmacro")
}

// macroBody reads a body that belongs to no loop around it.
func (p *parser) macroBody(m *macroDef, end string) error {
	loops := p.loops
	p.loops = 0
	defer func() { p.loops = loops }()
	var err error
	m.body, err = p.inner(end)
	return err
}

func (p *parser) params(m *macroDef) error {
	if err := p.expect(kindOperator, "("); err != nil {
		return err
	}
	for !p.op(")") {
		if len(m.params) > 0 {
			if err := p.expect(kindOperator, ","); err != nil {
				return err
			}
			if p.op(")") {
				return nil
			}
		}
		n, err := p.identifier()
		if err != nil {
			return err
		}
		m.params = append(m.params, n)
		switch {
		case p.op("="):
			value, err := p.expression()
			if err != nil {
				return err
			}
			m.defaults = append(m.defaults, value)
		case len(m.defaults) > 0:
			return p.fail("parameter %s needs a default, as the one before it has", n)
		}
	}
	return nil
}

func (p *parser) callBlock() (stmt, error) {
	m := &macroDef{name: "caller"}
	if p.at(kindOperator, "(") {
		if err := p.params(m); err != nil {
			return nil, err
		}
	}
	value, err := p.expression()
	if err != nil {
		return nil, err
	}
	c, ok := value.(*call)
	if !ok {
		return nil, p.fail("{%% call %%} needs a call")
	}
	return &callBlock{c, m}, p.macroBody(m, "endcall")
}

func (p *parser) filterBlock() (stmt, error) {
	filters, err := p.filters()
	if err != nil {
		return nil, err
	}
	b, err := p.inner("endfilter")
	return &filterBlock{filters, b}, err
}

func (p *parser) with() (stmt, error) {
	var s with
	for p.peek().kind != kindBlockEnd {
		if len(s.names) > 0 {
			if err := p.expect(kindOperator, ","); err != nil {
				return nil, err
			}
		}
		n, err := p.identifier()
		if err == nil {
			err = p.expect(kindOperator, "=")
		}
		if err != nil {
			return nil, err
		}
		value, err := p.expression()
		if err != nil {
			return nil, err
		}
		s.names, s.values = append(s.names, n), append(s.values, value)
	}
	var err error
	s.body, err = p.inner("endwith")
	return &s, err
}

func (p *parser) generation() (stmt, error) {
	b, err := p.inner("endgeneration")
	return &scoped{b}, err
}
