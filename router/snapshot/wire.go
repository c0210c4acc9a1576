package snapshot

import (
	"encoding/binary"
	"hash/crc32"
)

// Format 2 is a magic, then frames: type (1 byte), payload length (4, little-endian), payload, CRC-32C of all that (4,
// little-endian). docs/snapshot-format.md is the full description.
const (
	format1 = 1
	format2 = 2

	magic = "RFSNAP\x02\x00"

	frameHead = 5
	frameTail = 4
)

// frameType says what a frame is. A reader passes over unknown ones from optional on, and refuses other unknown ones.
type frameType uint8

const (
	frameBody      frameType = 0x01 // what is true of the whole
	frameSection   frameType = 0x02 // the key and size of a section
	frameRows      frameType = 0x03 // ranks of the section before
	frameSignature frameType = 0x0f // of all before; no part of the digest
	frameNodes     frameType = 0x10
	frameHashes    frameType = 0x11
	frameOrphans   frameType = 0x12
	frameEnd       frameType = 0x1e // of a section: totals
	frameLast      frameType = 0x1f // of the body: totals

	frameOptional frameType = 0x80
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// beginFrame puts a frame's head at the end of b, and endFrame its length and checksum. start is where the head begins.
func beginFrame(b []byte, t frameType) []byte { return append(b, byte(t), 0, 0, 0, 0) }

func endFrame(b []byte, start int) []byte {
	binary.LittleEndian.PutUint32(b[start+1:], uint32(len(b)-start-frameHead))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// oneFrame gives a whole frame.
func oneFrame(t frameType, payload []byte) []byte {
	b := beginFrame(make([]byte, 0, frameHead+len(payload)+frameTail), t)
	return endFrame(append(b, payload...), 0)
}

func appendText(b []byte, s string) []byte {
	s = s[:min(len(s), maxText)]
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendU64(b []byte, v uint64) []byte { return binary.LittleEndian.AppendUint64(b, v) }

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

// reader takes values off a payload. After a value that is not there it is bad and gives zeros.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) fail() { r.b, r.bad = nil, true }

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) uvarint() uint64 {
	if len(r.b) > 0 && r.b[0] < 0x80 { // by far the most
		v := uint64(r.b[0])
		r.b = r.b[1:]
		return v
	}
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) u64() uint64 {
	if len(r.b) < 8 {
		r.fail()
		return 0
	}
	v := binary.LittleEndian.Uint64(r.b)
	r.b = r.b[8:]
	return v
}

// count reads a number that must not be above limit.
func (r *reader) count(limit int) int {
	v := r.uvarint()
	if v > uint64(limit) {
		r.fail()
		return 0
	}
	return int(v)
}

func (r *reader) bytes(limit int) []byte {
	n := r.count(limit)
	if n > len(r.b) {
		r.fail()
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) text() string { return string(r.bytes(maxText)) }
