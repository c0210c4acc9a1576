package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
)

// frameReader takes frames off a body and keeps its digest up. It holds one frame.
type frameReader struct {
	r      io.Reader
	verify func(signature string, d digest) error
	hash   hash.Hash
	buf    []byte
	read   int64
}

func newFrameReader(r io.Reader, verify func(string, digest) error) *frameReader {
	return &frameReader{r: r, verify: verify, hash: sha256.New()}
}

// fill reads n bytes into the buffer. A body that ends within is cut off, not malformed: the peer died, or the network.
func (f *frameReader) fill(n int) error {
	if f.read += int64(n); f.read > maxBodyBytes {
		return reject(Malformed, "the body has more than %d bytes", int64(maxBodyBytes))
	}
	if cap(f.buf) < n {
		f.buf = make([]byte, n, max(n, frameBytes))
	}
	f.buf = f.buf[:n]
	if _, err := io.ReadFull(f.r, f.buf); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return fmt.Errorf("read a snapshot: %w", err)
	}
	return nil
}

func (f *frameReader) magic() error {
	if err := f.fill(len(magic)); err != nil {
		return err
	}
	if !bytes.Equal(f.buf, []byte(magic)) {
		return reject(UnknownFormat, "the body begins with %q", f.buf)
	}
	f.hash.Write(f.buf)
	return nil
}

// next gives the next frame that is not passed over. The payload is valid until the one after.
func (f *frameReader) next() (frameType, []byte, error) {
	for {
		t, payload, err := f.frame()
		if err != nil || t < frameOptional {
			return t, payload, err
		}
	}
}

func (f *frameReader) frame() (frameType, []byte, error) {
	if err := f.fill(frameHead); err != nil {
		return 0, nil, err
	}
	head := [frameHead]byte(f.buf)
	n := binary.LittleEndian.Uint32(head[1:])
	if n > maxFrameBytes {
		return 0, nil, reject(Malformed, "a frame of type %#x has %d bytes, more than %d", head[0], n, maxFrameBytes)
	}
	if err := f.fill(int(n) + frameTail); err != nil {
		return 0, nil, err
	}
	sum := crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, f.buf[:n])
	if got := binary.LittleEndian.Uint32(f.buf[n:]); got != sum {
		return 0, nil, reject(Malformed, "a frame of type %#x has checksum %08x, not %08x", head[0], sum, got)
	}
	t := frameType(head[0])
	if t != frameSignature {
		f.hash.Write(head[:])
		f.hash.Write(f.buf)
	}
	return t, f.buf[:n], nil
}

// want gives the payload of the next frame, which must have a type.
func (f *frameReader) want(t frameType) ([]byte, error) {
	got, payload, err := f.next()
	if err == nil && got != t {
		err = reject(Malformed, "a frame of type %#x stands where %#x belongs", uint8(got), uint8(t))
	}
	return payload, err
}

// signed reads a signature and checks it against all that was read.
func (f *frameReader) signed() error {
	payload, err := f.want(frameSignature)
	if err != nil {
		return err
	}
	d := digest(f.hash.Sum(nil))
	if len(payload) < len(d) || !bytes.Equal(payload[:len(d)], d[:]) {
		return reject(Malformed, "the digest in a signature is not that of what came before it")
	}
	r := reader{b: payload[len(d):]}
	signature := r.text()
	if r.bad {
		return reject(Malformed, "a signature cannot be read")
	}
	if err := f.verify(signature, d); err != nil {
		return &Rejection{Reason: Unauthentic, Detail: err.Error()}
	}
	return nil
}

// end checks that nothing follows.
func (f *frameReader) end() error {
	var one [1]byte
	switch n, err := io.ReadFull(f.r, one[:]); {
	case n > 0:
		return reject(Malformed, "there is something behind the end")
	case errors.Is(err, io.EOF):
		return nil
	default:
		return fmt.Errorf("read the end of a snapshot: %w", err)
	}
}

// wireSection is a section of the table.
type wireSection struct {
	sectionHead
	rows []wireRow
}

// exports tells whether any row's blocks are in the body.
func (s *wireSection) exports() bool {
	for i := range s.rows {
		if s.rows[i].exported {
			return true
		}
	}
	return false
}

// table reads all that stands before the first chunk.
func (f *frameReader) table() (h bodyHead, sections []wireSection, err error) {
	if err = f.magic(); err != nil {
		return h, nil, err
	}
	payload, err := f.want(frameBody)
	if err != nil {
		return h, nil, err
	}
	h, ok := decodeBodyHead(payload)
	if !ok {
		return h, nil, reject(Malformed, "the first frame cannot be read")
	}
	left := maxRows
	for range h.sections {
		s, err := f.section(left)
		if err != nil {
			return h, nil, err
		}
		left -= len(s.rows)
		sections = append(sections, s)
	}
	return h, sections, f.signed()
}

func (f *frameReader) section(limit int) (s wireSection, err error) {
	payload, err := f.want(frameSection)
	if err != nil {
		return s, err
	}
	var ok bool
	if s.sectionHead, ok = decodeSectionHead(payload); !ok || s.sectionHead.rows > limit {
		return s, reject(Malformed, "a section cannot be read, or the body has more than %d ranks", maxRows)
	}
	for len(s.rows) < s.sectionHead.rows {
		if payload, err = f.want(frameRows); err != nil {
			return s, err
		}
		rows, ok := decodeRows(payload, s.sectionHead.rows-len(s.rows))
		if !ok || len(rows) == 0 || f.read > maxTableBytes {
			return s, reject(Malformed, "the ranks of section %s cannot be read, or the table has more than %d bytes", s.key, maxTableBytes)
		}
		s.rows = append(s.rows, rows...)
	}
	return s, nil
}
