package kvevents

import (
	"github.com/tinylib/msgp/msgp"
)

// naiveSkip is skip's dumb twin: by recursion and the library's own readers.
func naiveSkip(p []byte, depth int) ([]byte, error) {
	if depth > 10_000 {
		return nil, errTorn
	}
	switch {
	case isArray(p):
		n, rest, err := msgp.ReadArrayHeaderBytes(p)
		return naiveSkipN(rest, uint64(n), depth, err)
	case isMap(p):
		n, rest, err := msgp.ReadMapHeaderBytes(p)
		return naiveSkipN(rest, 2*uint64(n), depth, err)
	}
	return msgp.Skip(p)
}

func naiveSkipN(p []byte, n uint64, depth int, err error) ([]byte, error) {
	for ; err == nil && n > 0; n-- {
		p, err = naiveSkip(p, depth+1)
	}
	return p, err
}
