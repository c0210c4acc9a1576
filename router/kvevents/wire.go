package kvevents

import (
	"encoding/binary"
	"errors"
	"math"

	"github.com/tinylib/msgp/msgp"
)

var (
	errTorn     = errors.New("the payload ends inside a value, or is not MessagePack")
	errShape    = errors.New("a field has a type or value it cannot have")
	errTooLarge = errors.New("a field is beyond its limit")
	errUnknown  = errors.New("an event of a kind we do not know")
)

// skip gives what follows the value b begins with. It needs neither recursion nor memory: it counts the values that are
// still to come, and each takes a byte at least.
func skip(b []byte) ([]byte, error) {
	for pending := uint64(1); pending > 0; pending-- {
		if uint64(len(b)) < pending {
			return nil, errTorn
		}
		if size := int(scalarBytes[b[0]]); size != 0 && size <= len(b) { // nearly all there is: token lists
			b = b[size:]
			continue
		}
		size, inner, ok := extent(b)
		if !ok || uint64(len(b)) < size {
			return nil, errTorn
		}
		b = b[size:]
		pending += inner
	}
	return b, nil
}

// extent gives the bytes of the value b begins with, without the values inside it, and how many those are. b is not empty.
func extent(b []byte) (size, inner uint64, ok bool) {
	c := b[0]
	switch {
	case c <= 0x7f || c >= 0xe0: // small integers
		return 1, 0, true
	case c <= 0x8f:
		return 1, 2 * uint64(c&0x0f), true
	case c <= 0x9f:
		return 1, uint64(c & 0x0f), true
	case c <= 0xbf:
		return 1 + uint64(c&0x1f), 0, true
	}
	var n uint64 // the length that follows the first byte, in wide bytes
	wide := uint64(lengthBytes[c-0xc0])
	if uint64(len(b)) < 1+wide {
		return 0, 0, false
	}
	switch wide {
	case 1:
		n = uint64(b[1])
	case 2:
		n = uint64(binary.BigEndian.Uint16(b[1:]))
	case 4:
		n = uint64(binary.BigEndian.Uint32(b[1:]))
	}
	switch {
	case c == 0xc1: // never used
		return 0, 0, false
	case c >= 0xde: // maps
		return 1 + wide, 2 * n, true
	case c >= 0xdc: // arrays
		return 1 + wide, n, true
	case wide > 0: // binaries, extensions (with a byte for their type), strings
		return 1 + wide + n + uint64(fixedBytes[c-0xc0]), 0, true
	}
	return 1 + uint64(fixedBytes[c-0xc0]), 0, true
}

// What follows the first bytes from 0xc0: bytes of a length, then bytes that are always there.
var (
	lengthBytes = [32]uint8{
		4: 1, 5: 2, 6: 4, // bin
		7: 1, 8: 2, 9: 4, // ext
		0x19: 1, 0x1a: 2, 0x1b: 4, // str
		0x1c: 2, 0x1d: 4, // array
		0x1e: 2, 0x1f: 4, // map
	}
	fixedBytes = [32]uint8{
		7: 1, 8: 1, 9: 1, // ext: type
		0x0a: 4, 0x0b: 8, // float
		0x0c: 1, 0x0d: 2, 0x0e: 4, 0x0f: 8, // uint
		0x10: 1, 0x11: 2, 0x12: 4, 0x13: 8, // int
		0x14: 2, 0x15: 3, 0x16: 5, 0x17: 9, 0x18: 17, // fixext
	}
)

// scalarBytes is the size of the values whose first byte tells it, all but short strings; 0 for the others.
var scalarBytes = func() (sizes [256]uint8) {
	for c := range sizes {
		switch {
		case c <= 0x7f || c >= 0xe0:
			sizes[c] = 1
		case c == 0xc0 || c == 0xc2 || c == 0xc3 || c >= 0xca && c <= 0xd8:
			sizes[c] = 1 + fixedBytes[c-0xc0]
		}
	}
	return sizes
}()

// isArray tells whether b begins with an array.
func isArray(b []byte) bool {
	return len(b) > 0 && (b[0]&0xf0 == 0x90 || b[0] == 0xdc || b[0] == 0xdd)
}

// isMap tells whether b begins with a map.
func isMap(b []byte) bool {
	return len(b) > 0 && (b[0]&0xf0 == 0x80 || b[0] == 0xde || b[0] == 0xdf)
}

// arrayOf reads an array header. No array has more elements than bytes follow.
func arrayOf(b []byte) (n int, rest []byte, err error) {
	if !isArray(b) {
		return 0, nil, errShape
	}
	sz, rest, err := msgp.ReadArrayHeaderBytes(b)
	if err != nil || uint64(sz) > uint64(len(rest)) {
		return 0, nil, errTorn
	}
	return int(sz), rest, nil
}

// mapOf reads a map header.
func mapOf(b []byte) (pairs int, rest []byte, err error) {
	sz, rest, err := msgp.ReadMapHeaderBytes(b)
	if err != nil || 2*uint64(sz) > uint64(len(rest)) {
		return 0, nil, errTorn
	}
	return int(sz), rest, nil
}

// isText tells whether b begins with a string.
func isText(b []byte) bool {
	return len(b) > 0 && (b[0]&0xe0 == 0xa0 || b[0] >= 0xd9 && b[0] <= 0xdb)
}

// textOf reads a string, without a copy.
func textOf(b []byte) (text, rest []byte, err error) {
	if !isText(b) {
		return nil, nil, errShape
	}
	text, rest, err = msgp.ReadStringZC(b)
	if err != nil {
		return nil, nil, errTorn
	}
	return text, rest, nil
}

// optionalText reads a string or nil.
func optionalText(b []byte) (text, rest []byte, err error) {
	if msgp.IsNil(b) {
		return nil, b[1:], nil
	}
	return textOf(b)
}

// bitsOf reads an integer of any width and sign as 64 bits.
func bitsOf(b []byte) (bits uint64, rest []byte, err error) {
	if len(b) == 0 {
		return 0, nil, errTorn
	}
	c := b[0]
	size := int(scalarBytes[c])
	if c >= 0x80 && c < 0xcc || c >= 0xd4 && c < 0xe0 {
		return 0, nil, errShape
	}
	if size > len(b) {
		return 0, nil, errTorn
	}
	v, rest := b[1:size], b[size:]
	switch c {
	case 0xcc:
		bits = uint64(v[0])
	case 0xcd:
		bits = uint64(binary.BigEndian.Uint16(v))
	case 0xce:
		bits = uint64(binary.BigEndian.Uint32(v))
	case 0xcf, 0xd3:
		bits = binary.BigEndian.Uint64(v)
	case 0xd0:
		bits = uint64(int8(v[0]))
	case 0xd1:
		bits = uint64(int16(binary.BigEndian.Uint16(v)))
	case 0xd2:
		bits = uint64(int32(binary.BigEndian.Uint32(v)))
	default: // the integer is the byte
		bits = uint64(int8(c))
	}
	return bits, rest, nil
}

// integerOf reads an integer within [low, high].
func integerOf(b []byte, low, high int64) (i int64, rest []byte, err error) {
	bits, rest, err := bitsOf(b)
	if err != nil {
		return 0, nil, err
	}
	// A large unsigned value reads as negative here; no range asked for has both.
	if i = int64(bits); i < low || i > high {
		return 0, nil, errShape
	}
	return i, rest, nil
}

// tokenOf reads a token id.
func tokenOf(b []byte) (token uint32, rest []byte, err error) {
	bits, rest, err := bitsOf(b)
	if err == nil && bits > math.MaxUint32 {
		return 0, nil, errShape
	}
	return uint32(bits), rest, err
}

// stampOf reads seconds since the Unix epoch, as a float or an integer.
func stampOf(b []byte) (Stamp, []byte, error) {
	var seconds float64
	var rest []byte
	var err error
	if len(b) > 0 && (b[0] == 0xca || b[0] == 0xcb) {
		if seconds, rest, err = msgp.ReadFloat64Bytes(b); err != nil {
			return 0, nil, errTorn
		}
	} else {
		var bits uint64
		if bits, rest, err = bitsOf(b); err != nil {
			return 0, nil, err
		}
		seconds = float64(int64(bits))
	}
	const most = float64(math.MaxInt64 / 1e9) // the year 2262
	if !(seconds >= 0 && seconds < most) {
		return 0, nil, errShape
	}
	return Stamp(math.Round(seconds * 1e9)), rest, nil
}
