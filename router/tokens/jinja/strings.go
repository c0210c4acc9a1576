package jinja

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

func all(s string, is func(rune) bool) bool {
	return s != "" && strings.IndexFunc(s, func(c rune) bool { return !is(c) }) < 0
}

// cased says that the letters which have a case all are of one, and that there is one.
func cased(s string, is func(rune) bool) bool {
	some := false
	for _, c := range s {
		if unicode.IsLower(c) || unicode.IsUpper(c) || unicode.IsTitle(c) {
			if !is(c) {
				return false
			}
			some = true
		}
	}
	return some
}

// textArg is an argument that must be a string.
func (r *run) textArg(a values, at int) string {
	s, ok := must(a, at).(string)
	if !ok {
		r.fail("a string method with %s where it takes a string", kindOf(must(a, at)))
	}
	return s
}

func strip(r *run, s string, a values, left, right bool) any {
	cut := isSpace
	if len(a.list) > 0 && a.list[0] != nil {
		chars := r.textArg(a, 0)
		cut = func(c rune) bool { return strings.ContainsRune(chars, c) }
	}
	if left {
		s = strings.TrimLeftFunc(s, cut)
	}
	if right {
		s = strings.TrimRightFunc(s, cut)
	}
	return s
}

// affix tries one string or each of a tuple.
func affix(r *run, s string, a values, has func(string, string) bool) any {
	if l, ok := must(a, 0).(*List); ok {
		for _, item := range l.Items {
			if t, ok := item.(string); ok && has(s, t) {
				return true
			}
		}
		return false
	}
	return has(s, r.textArg(a, 0))
}

func split(r *run, s string, a values, fromRight bool) any {
	limit := -1
	if n, ok := a.arg(1, "maxsplit"); ok {
		m, _ := integer(n)
		limit = int(min(max(m, -1), maxItems))
	}
	separator, given := a.arg(0, "sep")
	if !given || separator == nil {
		return splitSpace(r, s, limit, fromRight)
	}
	sep, ok := separator.(string)
	if !ok || sep == "" {
		return r.fail("split by %s", kindOf(separator))
	}
	var parts []string
	switch {
	case limit < 0:
		parts = strings.Split(s, sep)
	case !fromRight:
		parts = strings.SplitN(s, sep, limit+1)
	default:
		for at := strings.LastIndex(s, sep); at >= 0 && len(parts) < limit; at = strings.LastIndex(s, sep) {
			parts = append(parts, s[at+len(sep):])
			s = s[:at]
		}
		parts = append(parts, s)
		slices.Reverse(parts)
	}
	return stringsList(r, parts)
}

// splitSpace splits at runs of white space.
func splitSpace(r *run, s string, limit int, fromRight bool) any {
	if limit >= 0 && fromRight {
		return r.fail("rsplit by white space with a limit is not supported")
	}
	var parts []string
	for s = strings.TrimLeftFunc(s, isSpace); s != ""; s = strings.TrimLeftFunc(s, isSpace) {
		at := strings.IndexFunc(s, isSpace)
		if at < 0 || limit >= 0 && len(parts) == limit {
			at = len(s)
		}
		parts, s = append(parts, s[:at]), s[at:]
	}
	return stringsList(r, parts)
}

func stringsList(r *run, parts []string) any {
	items := make([]any, len(parts))
	for i, p := range parts {
		items[i] = p
	}
	return r.items(items)
}

// splitLines splits at the line ends that Python knows.
func splitLines(r *run, s string, a values) any {
	if len(a.list)+len(a.named) > 0 {
		return r.fail("splitlines with arguments is not supported")
	}
	var parts []string
	for s != "" {
		at := strings.IndexAny(s, "\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029")
		if at < 0 {
			parts = append(parts, s)
			break
		}
		parts = append(parts, s[:at])
		if strings.HasPrefix(s[at:], "\r\n") {
			at++
		}
		_, size := utf8.DecodeRuneInString(s[at:])
		s = s[at+size:]
	}
	return stringsList(r, parts)
}

func replaceString(r *run, s string, a values) any {
	count := -1
	if n, ok := a.arg(2, "count"); ok && n != nil {
		m, _ := integer(n)
		count = int(min(max(m, -1), MaxTextBytes))
	}
	from, to := r.textArg(a, 0), r.textArg(a, 1)
	times := strings.Count(s, from)
	if count >= 0 {
		times = min(times, count)
	}
	if grown := int64(times) * int64(len(to)-len(from)); grown > MaxTextBytes {
		return r.fail("replace makes a text of more than %d bytes", MaxTextBytes)
	}
	return r.made(strings.Replace(s, from, to, count))
}

// find counts in characters.
func find(r *run, s string, a values, search func(string, string) int) any {
	if len(a.list) > 1 {
		return r.fail("find with a range is not supported")
	}
	at := search(s, r.textArg(a, 0))
	if at < 0 {
		return int64(-1)
	}
	return int64(utf8.RuneCountInString(s[:at]))
}

func joinItems(r *run, v any, separator string) any {
	var b strings.Builder
	for i, item := range r.iterate(v) {
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(r.str(item))
		if b.Len() > MaxTextBytes || r.err != nil {
			break
		}
	}
	return r.made(b.String())
}

func capitalize(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return s
	}
	return string(unicode.ToTitle(first)) + lower(s[size:])
}

// title begins each word with a capital. A word is a run of letters.
func title(s string) string {
	inside := false
	return strings.Map(func(c rune) rune {
		was := inside
		inside = unicode.IsLetter(c)
		if was {
			return unicode.ToLower(c)
		}
		return unicode.ToTitle(c)
	}, s)
}
