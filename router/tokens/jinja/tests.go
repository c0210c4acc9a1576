package jinja

import "strings"

type testFunc func(r *run, v any, args []any) bool

// tests are those of Jinja that need nothing but values.
var tests = testTable()

func testTable() map[string]testFunc {
	is := func(f func(any) bool) testFunc { return func(_ *run, v any, _ []any) bool { return f(v) } }
	compares := func(op string) testFunc {
		return func(r *run, v any, args []any) bool {
			if len(args) != 1 {
				r.fail("a comparing test takes one argument")
				return false
			}
			return r.compare(op, v, args[0])
		}
	}
	return map[string]testFunc{
		"defined":   is(func(v any) bool { return !undefined(v) }),
		"undefined": is(undefined),
		"none":      is(func(v any) bool { return v == nil }),
		"true":      is(func(v any) bool { return v == true }),
		"false":     is(func(v any) bool { return v == false }),
		"boolean":   is(func(v any) bool { _, ok := v.(bool); return ok }),
		"string":    is(func(v any) bool { _, ok := v.(string); return ok }),
		"mapping":   is(func(v any) bool { _, ok := v.(*Dict); return ok }),
		"integer":   is(func(v any) bool { return kindIsInt(v) }),
		"float":     is(func(v any) bool { _, ok := v.(float64); return ok }),
		"number": is(func(v any) bool {
			_, f := v.(float64)
			_, b := v.(bool)
			return f || b || kindIsInt(v)
		}),
		"callable": is(func(v any) bool { _, ok := v.(function); return ok }),
		"iterable": is(func(v any) bool { _, ok := length(v); return ok }),
		"sequence": is(func(v any) bool { _, ok := length(v); return ok }),
		"lower":    func(r *run, v any, _ []any) bool { return cased(r.str(v), isLower) },
		"upper":    func(r *run, v any, _ []any) bool { return cased(r.str(v), isUpper) },
		"odd":      func(r *run, v any, _ []any) bool { return r.reckon("%", v, int64(2)) == int64(1) },
		"even":     func(r *run, v any, _ []any) bool { return r.reckon("%", v, int64(2)) == int64(0) },
		"divisibleby": func(r *run, v any, args []any) bool {
			return len(args) == 1 && r.reckon("%", v, args[0]) == int64(0)
		},
		"in": compares("in"), "eq": compares("=="), "equalto": compares("=="), "ne": compares("!="), "sameas": sameAs,
		"lt": compares("<"), "lessthan": compares("<"), "le": compares("<="), "gt": compares(">"), "greaterthan": compares(">"), "ge": compares(">="),
	}
}

func undefined(v any) bool {
	_, ok := v.(Undefined)
	return ok
}

func kindIsInt(v any) bool {
	switch v.(type) {
	case int64, Big:
		return true
	}
	return false
}

// sameAs is identity, which only the constants have for sure.
func sameAs(r *run, v any, args []any) bool {
	if len(args) == 1 {
		switch args[0].(type) {
		case nil, bool:
			return v == args[0]
		}
	}
	r.fail("sameas of anything but true, false and none is not supported")
	return false
}

func isLower(c rune) bool { return strings.ToLower(string(c)) == string(c) }
func isUpper(c rune) bool { return strings.ToUpper(string(c)) == string(c) }
