package publish

import (
	"encoding/binary"
	"math"
)

// The functions below append MessagePack as msgspec does: every value in its
// shortest form, integers from 0 on unsigned.

func appendNil(b []byte) []byte { return append(b, 0xc0) }

func appendFloat(b []byte, f float64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 0xcb), math.Float64bits(f))
}

func appendUint(b []byte, u uint64) []byte {
	switch {
	case u < 1<<7:
		return append(b, byte(u))
	case u < 1<<8:
		return append(b, 0xcc, byte(u))
	case u < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, 0xcd), uint16(u))
	case u < 1<<32:
		return binary.BigEndian.AppendUint32(append(b, 0xce), uint32(u))
	default:
		return binary.BigEndian.AppendUint64(append(b, 0xcf), u)
	}
}

func appendInt(b []byte, i int64) []byte {
	switch {
	case i >= 0:
		return appendUint(b, uint64(i))
	case i >= -1<<5:
		return append(b, byte(i))
	case i >= math.MinInt8:
		return append(b, 0xd0, byte(i))
	case i >= math.MinInt16:
		return binary.BigEndian.AppendUint16(append(b, 0xd1), uint16(i))
	case i >= math.MinInt32:
		return binary.BigEndian.AppendUint32(append(b, 0xd2), uint32(i))
	default:
		return binary.BigEndian.AppendUint64(append(b, 0xd3), uint64(i))
	}
}

func appendText(b []byte, s string) []byte {
	if len(s) < 1<<5 {
		b = append(b, 0xa0|byte(len(s)))
	} else {
		b = appendLength(b, len(s), 0xd9, 0xda, 0xdb)
	}
	return append(b, s...)
}

func appendBytes(b, data []byte) []byte {
	return append(appendLength(b, len(data), 0xc4, 0xc5, 0xc6), data...)
}

func appendArray(b []byte, n int) []byte {
	if n < 1<<4 {
		return append(b, 0x90|byte(n))
	}
	return appendLength(b, n, 0, 0xdc, 0xdd)
}

func appendMap(b []byte, n int) []byte {
	if n < 1<<4 {
		return append(b, 0x80|byte(n))
	}
	return appendLength(b, n, 0, 0xde, 0xdf)
}

// appendLength appends n behind the mark of its width; mark8 0 means that there
// is none of 8 bits.
func appendLength(b []byte, n int, mark8, mark16, mark32 byte) []byte {
	switch {
	case mark8 != 0 && n < 1<<8:
		return append(b, mark8, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(b, mark16), uint16(n))
	default:
		return binary.BigEndian.AppendUint32(append(b, mark32), uint32(n))
	}
}
