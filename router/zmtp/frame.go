package zmtp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Frame flags of the specification. Any other bit is reserved and refused.
const (
	flagMore    = 0x01
	flagLong    = 0x02
	flagCommand = 0x04
)

// frameHeader is the part of a frame before its body.
type frameHeader struct {
	flags byte
	size  uint64
}

func (h frameHeader) more() bool    { return h.flags&flagMore != 0 }
func (h frameHeader) command() bool { return h.flags&flagCommand != 0 }

func readHeader(r *bufio.Reader) (frameHeader, error) {
	flags, err := r.ReadByte()
	if err != nil {
		return frameHeader{}, err
	}
	if flags&^(flagMore|flagLong|flagCommand) != 0 || flags&flagCommand != 0 && flags&flagMore != 0 {
		return frameHeader{}, fmt.Errorf("zmtp: peer sends a frame with flags %#02x: not a ZMTP 3 stream", flags)
	}
	if flags&flagLong == 0 {
		n, err := r.ReadByte()
		return frameHeader{flags, uint64(n)}, noEOF(err)
	}
	b, err := r.Peek(8) // an array of our own would escape to the heap, once a frame
	if err != nil {
		return frameHeader{}, noEOF(err)
	}
	size := binary.BigEndian.Uint64(b)
	_, err = r.Discard(8)
	return frameHeader{flags, size}, err
}

// readBody appends the body of size bytes to buf. The caller has checked size against a limit.
func readBody(r *bufio.Reader, buf []byte, size uint64) ([]byte, error) {
	at := len(buf)
	for left := int(size); left > 0; {
		// Grow by what has arrived, not by what is announced: a peer must send bytes to make us take memory.
		step := min(left, max(r.Buffered(), readStep))
		buf = grow(buf, step)
		if _, err := io.ReadFull(r, buf[at:at+step]); err != nil {
			return buf, noEOF(err)
		}
		at, left = at+step, left-step
	}
	return buf, nil
}

// readStep is the most that is allocated ahead of the bytes that fill it.
const readStep = 64 << 10

func grow(buf []byte, n int) []byte {
	if need := len(buf) + n; need <= cap(buf) {
		return buf[:need]
	}
	return append(buf, make([]byte, n)...)
}

// appendFrame appends one frame.
func appendFrame(dst []byte, flags byte, body []byte) []byte {
	if len(body) > 255 {
		dst = append(dst, flags|flagLong)
		dst = binary.BigEndian.AppendUint64(dst, uint64(len(body)))
	} else {
		dst = append(dst, flags, byte(len(body)))
	}
	return append(dst, body...)
}

// appendMessage appends the frames of one message.
func appendMessage(dst []byte, parts [][]byte) []byte {
	for i, p := range parts {
		flags := byte(flagMore)
		if i == len(parts)-1 {
			flags = 0
		}
		dst = appendFrame(dst, flags, p)
	}
	return dst
}

// noEOF makes an end in the middle of something an unexpected one.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
