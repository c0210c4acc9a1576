package kvevents

import "strconv"

// interner keeps names, so that each is allocated once and not with every event. It forgets all of them when it is full.
type interner struct {
	known   map[string]string
	scratch []byte
}

// name gives the string of a name that is not beyond its limit. nil gives "".
func (in *interner) name(b []byte) (string, error) {
	if len(b) == 0 {
		return "", nil
	}
	if len(b) > maxNameBytes {
		return "", errTooLarge
	}
	return in.intern(b), nil
}

// number gives the name of an adapter that has none.
func (in *interner) number(n int64) string {
	in.scratch = strconv.AppendInt(append(in.scratch[:0], '#'), n, 10)
	return in.intern(in.scratch)
}

func (in *interner) intern(b []byte) string {
	if s, ok := in.known[string(b)]; ok {
		return s
	}
	if in.known == nil || len(in.known) >= internedNames {
		in.known = make(map[string]string)
	}
	s := string(b)
	in.known[s] = s
	return s
}
