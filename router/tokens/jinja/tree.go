package jinja

// expr is an expression: it has a value in a run. After an error of the run the value means nothing.
type expr interface{ eval(*run) any }

// stmt is what a template's body consists of: it writes text and changes variables.
type stmt interface{ exec(*run) flow }

// flow says how a statement ended.
type flow uint8

const (
	flowNext flow = iota
	flowBreak
	flowContinue
)

// Expressions.
type (
	literal struct{ value any }
	list    struct {
		items []expr
		tuple bool
	}
	dict struct{ keys, values []expr }
	name struct{ name string }
	// attribute is of.name, item is of[key], slice is of[from:to:step]; what is absent is nil.
	attribute struct {
		of   expr
		name string
	}
	item  struct{ of, key expr }
	slice struct{ of, from, to, step expr }
	call  struct {
		of   expr
		args arguments
	}
	filter struct {
		of    expr
		named string
		apply filterFunc
		args  arguments
	}
	test struct {
		of    expr
		apply testFunc
		args  []expr
		not   bool
	}
	not    struct{ of expr }
	minus  struct{ of expr }
	plus   struct{ of expr }
	and    struct{ left, right expr }
	or     struct{ left, right expr }
	binary struct {
		op          string
		left, right expr
	}
	// compare is a chain: a < b <= c.
	compare struct {
		first expr
		ops   []string
		rest  []expr
	}
	conditional struct{ cond, then, otherwise expr }
)

// arguments of a call, filter or macro.
type arguments struct {
	positional []expr
	names      []string
	named      []expr
}

// Statements.
type (
	text  struct{ text string }
	print struct{ value expr }
	block []stmt
	// branch has one body more than conditions, when there is an else.
	branch struct {
		conds  []expr
		bodies []block
	}
	loop struct {
		targets   []string
		over      expr
		cond      expr
		body      block
		otherwise block
	}
	// set assigns to names, or to an attribute of a namespace; body is of the form with an end.
	set struct {
		targets   []string
		attribute string
		value     expr
		body      block
		filters   []filter
	}
	macroDef struct {
		name     string
		params   []string
		defaults []expr // of the last params
		body     block
	}
	callBlock struct {
		call   *call
		caller *macroDef
	}
	filterBlock struct {
		filters []filter
		body    block
	}
	with struct {
		names  []string
		values []expr
		body   block
	}
	// scoped runs a body in place: {% generation %} marks what the model said and changes no text.
	scoped struct{ body block }
	jump   struct{ flow flow }
)
