package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// RaisedError is what a template says with raise_exception: it refuses the chat, and so will the engine.
type RaisedError struct{ Message string }

func (e *RaisedError) Error() string { return "jinja: the template refuses the chat: " + e.Message }

// globals are what every template finds.
var globals = &scope{
	names: []string{"raise_exception", "namespace", "range", "dict", "strftime_now", "cycler", "joiner", "lipsum"},
	values: []any{function(raise), function(newNamespace), function(numbers), function(newDict), function(now),
		function(unsupported), function(unsupported), function(unsupported)},
}

// unsupported are functions of Jinja's that no chat template needs.
func unsupported(r *run, _ values) any { return r.fail("a function that is not supported") }

// maxMessage bounds what of a template's message is kept.
const maxMessage = 256

func raise(r *run, a values) any {
	message := r.str(must(a, 0))
	if r.err == nil {
		r.err = &RaisedError{message[:min(len(message), maxMessage)]}
	}
	return nil
}

func newNamespace(r *run, a values) any {
	ns := &namespace{vars: map[string]any{}}
	for i, n := range a.names {
		ns.vars[n] = a.named[i]
	}
	if len(a.list) > 0 {
		return r.fail("namespace takes named arguments only")
	}
	return ns
}

func newDict(r *run, a values) any {
	d := &Dict{}
	if len(a.list) == 1 {
		from, ok := a.list[0].(*Dict)
		if !ok {
			return r.fail("dict of %s is not supported", kindOf(a.list[0]))
		}
		d = from.Copy()
	}
	for i, n := range a.names {
		d.Set(n, a.named[i])
	}
	return d
}

// numbers is range.
func numbers(r *run, a values) any {
	var parts [3]int64
	parts[2] = 1
	if len(a.list) < 1 || len(a.list) > 3 {
		return r.fail("range takes one to three numbers")
	}
	for i, v := range a.list {
		n, ok := integer(v)
		if !ok {
			return r.fail("range of %s", kindOf(v))
		}
		parts[i] = n
	}
	from, to, by := parts[0], parts[1], parts[2]
	if len(a.list) == 1 {
		from, to = 0, from
	}
	if by == 0 {
		return r.fail("range with a step of zero")
	}
	var items []any
	for i := from; by > 0 && i < to || by < 0 && i > to; i += by {
		if len(items) == maxItems {
			r.err = fmt.Errorf("%w: a range of more than %d numbers", ErrLimit, maxItems)
			return nil
		}
		items = append(items, i)
	}
	return r.items(items)
}

// now is strftime_now(format): the day, mostly.
func now(r *run, a values) any {
	format := r.textArg(a, 0)
	if r.err != nil {
		return nil
	}
	s, err := strftime(r.now(), format)
	if err != nil {
		return r.fail("%w", err)
	}
	return r.made(s)
}

// conversions of strftime, in the C locale.
var conversions = map[byte]string{
	'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'd': "02", 'H': "15", 'I': "03", 'm': "01", 'M': "04", 'p': "PM",
	'S': "05", 'y': "06", 'Y': "2006", 'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06", 'e': "_2", 'h': "Jan", 'R': "15:04",
}

func strftime(t time.Time, format string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		i++
		if i == len(format) {
			return "", fmt.Errorf("strftime: %q ends in %%", format)
		}
		padded := true
		if format[i] == '-' && i+1 < len(format) {
			padded = false
			i++
		}
		switch layout, ok := conversions[format[i]]; {
		case format[i] == '%':
			b.WriteByte('%')
		case format[i] == 'j':
			fmt.Fprintf(&b, "%03d", t.YearDay())
		case !ok:
			return "", fmt.Errorf("strftime: %%%c is not supported", format[i])
		case padded:
			b.WriteString(t.Format(layout))
		default:
			n, err := strconv.Atoi(strings.TrimSpace(t.Format(layout)))
			if err != nil {
				return "", fmt.Errorf("strftime: %%-%c is not supported", format[i])
			}
			b.WriteString(strconv.Itoa(n))
		}
	}
	return b.String(), nil
}
