package jinja

import (
	"slices"
	"strings"
	"unicode"
)

// methodOf gives a method bound to its value, nil when there is none. The sandbox has only those that change nothing.
func methodOf(of any, name string) any {
	switch v := of.(type) {
	case string:
		if m, ok := stringMethods[name]; ok {
			return function(func(r *run, a values) any {
				r.step(len(v))
				return m(r, v, a)
			})
		}
	case *Dict:
		if m, ok := dictMethods[name]; ok {
			return function(func(r *run, a values) any { return m(r, v, a) })
		}
	case *List:
		if m, ok := listMethods[name]; ok {
			return function(func(r *run, a values) any { return m(r, v, a) })
		}
	}
	return nil
}

// pythonOnly says whether Python's value has an attribute that this package does not have: it is no undefined one.
func pythonOnly(of any, name string) bool {
	switch of.(type) {
	case string:
		return stringOnly[name]
	case *Dict:
		return name == "fromkeys"
	}
	return false
}

// unsafe says whether an attribute would change its value. In the sandbox it is undefined, even where a dict has such a key.
func unsafe(of any, name string) bool {
	switch of.(type) {
	case *Dict:
		return dictUnsafe[name]
	case *List:
		return listUnsafe[name]
	}
	return false
}

var (
	stringOnly = names(`casefold center encode expandtabs format format_map index isascii isdecimal isidentifier isnumeric
		isprintable istitle ljust maketrans partition rindex rjust rpartition swapcase translate zfill`)
	dictUnsafe = names("clear pop popitem setdefault update")
	listUnsafe = names("append clear extend insert pop remove reverse sort")
)

func names(list string) map[string]bool {
	set := map[string]bool{}
	for _, n := range strings.Fields(list) {
		set[n] = true
	}
	return set
}

var dictMethods = map[string]func(*run, *Dict, values) any{
	"items":  func(r *run, d *Dict, _ values) any { return items(r, d, values{}) },
	"keys":   func(r *run, d *Dict, _ values) any { return r.items(r.iterate(d)) },
	"values": func(r *run, d *Dict, _ values) any { return r.items(slices.Clone(d.values)) },
	"copy":   func(_ *run, d *Dict, _ values) any { return d },
	"get": func(r *run, d *Dict, a values) any {
		key, ok := must(a, 0).(string)
		if !ok {
			return r.fail("get of a key that is no string")
		}
		if v, ok := d.Get(key); ok {
			return v
		}
		if other, ok := a.arg(1, "default"); ok {
			return other
		}
		return nil
	},
}

var listMethods = map[string]func(*run, *List, values) any{
	"count": func(_ *run, l *List, a values) any {
		n, what := int64(0), must(a, 0)
		for _, item := range l.Items {
			if equal(item, what, 0) {
				n++
			}
		}
		return n
	},
	"index": func(r *run, l *List, a values) any {
		for i, item := range l.Items {
			if equal(item, must(a, 0), 0) {
				return int64(i)
			}
		}
		return r.fail("the item is not in the list")
	},
	"copy": func(_ *run, l *List, _ values) any { return l },
}

// must gives a positional argument; one that is missing is undefined.
func must(a values, at int) any {
	if at < len(a.list) {
		return a.list[at]
	}
	return Undefined{"argument"}
}

var stringMethods = map[string]func(*run, string, values) any{
	"strip":      func(r *run, s string, a values) any { return strip(r, s, a, true, true) },
	"lstrip":     func(r *run, s string, a values) any { return strip(r, s, a, true, false) },
	"rstrip":     func(r *run, s string, a values) any { return strip(r, s, a, false, true) },
	"upper":      func(r *run, s string, _ values) any { return r.made(upper(s)) },
	"lower":      func(r *run, s string, _ values) any { return r.made(lower(s)) },
	"title":      func(r *run, s string, _ values) any { return r.made(title(s)) },
	"capitalize": func(r *run, s string, _ values) any { return r.made(capitalize(s)) },
	"startswith": func(r *run, s string, a values) any { return affix(r, s, a, strings.HasPrefix) },
	"endswith":   func(r *run, s string, a values) any { return affix(r, s, a, strings.HasSuffix) },
	"split":      func(r *run, s string, a values) any { return split(r, s, a, false) },
	"rsplit":     func(r *run, s string, a values) any { return split(r, s, a, true) },
	"splitlines": splitLines,
	"replace":    func(r *run, s string, a values) any { return replaceString(r, s, a) },
	"join":       func(r *run, s string, a values) any { return joinItems(r, must(a, 0), s) },
	"find":       func(r *run, s string, a values) any { return find(r, s, a, strings.Index) },
	"rfind":      func(r *run, s string, a values) any { return find(r, s, a, strings.LastIndex) },
	"count": func(r *run, s string, a values) any {
		return int64(strings.Count(s, r.textArg(a, 0)))
	},
	"removeprefix": func(r *run, s string, a values) any { return strings.TrimPrefix(s, r.textArg(a, 0)) },
	"removesuffix": func(r *run, s string, a values) any { return strings.TrimSuffix(s, r.textArg(a, 0)) },
	"isdigit":      func(_ *run, s string, _ values) any { return all(s, unicode.IsDigit) },
	"isalpha":      func(_ *run, s string, _ values) any { return all(s, unicode.IsLetter) },
	"isspace":      func(_ *run, s string, _ values) any { return all(s, isSpace) },
	"isalnum": func(_ *run, s string, _ values) any {
		return all(s, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) })
	},
	"islower": func(_ *run, s string, _ values) any { return cased(s, unicode.IsLower) },
	"isupper": func(_ *run, s string, _ values) any { return cased(s, unicode.IsUpper) },
}
