package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"io"
)

// digest is the SHA-256 of a body up to some place, signatures left out.
type digest = [sha256.Size]byte

// signer gives the signature of a digest, as of the request that is answered.
type signer func(digest) string

// signatureFrame carries a digest and its signature.
func signatureFrame(d digest, signature string) []byte {
	b := append(make([]byte, 0, len(d)+len(signature)+2), d[:]...)
	return oneFrame(frameSignature, append(binary.AppendUvarint(b, uint64(len(signature))), signature...))
}

// bodyWriter writes a body and keeps its digest up.
type bodyWriter struct {
	w    io.Writer
	sign signer
	hash hash.Hash
	err  error
}

func newBodyWriter(w io.Writer, sign signer) *bodyWriter {
	return &bodyWriter{w: w, sign: sign, hash: sha256.New()}
}

func (b *bodyWriter) write(p []byte) error {
	if b.err == nil {
		b.hash.Write(p) // never fails
		_, b.err = b.w.Write(p)
	}
	return b.err
}

// signature signs all that was written.
func (b *bodyWriter) signature() error {
	if b.err == nil {
		d := digest(b.hash.Sum(nil))
		_, b.err = b.w.Write(signatureFrame(d, b.sign(d)))
	}
	return b.err
}

// build is a whole body, kept as it goes over the wire but for the signatures. It is immutable.
type build struct {
	head     bodyHead
	table    []byte // magic, head, sections and rows
	sections []builtSection
	last     []byte
	digests  []digest // at each signature
	size     int64    // bytes, without signatures
}

// builtSection is a section with its chunks.
type builtSection struct {
	wireSection
	frames [][]byte
	totals totals
	end    []byte // nil where no row is exported: then there are no frames either
}

// seal writes the table and the digests, when everything else is known.
func (b *build) seal() {
	b.head.sections = len(b.sections)
	b.head.nodes = 0
	for i := range b.sections {
		s := &b.sections[i]
		s.sectionHead.rows, s.sectionHead.nodes = len(s.rows), s.totals.nodes
		b.head.nodes += s.totals.nodes
	}
	b.table = b.encodeTable(nil)
	b.size = b.length()
	b.head.bytes = uint64(b.size)
	b.table = b.encodeTable(b.table[:0]) // as long as before: the size has 8 bytes
	w := newBodyWriter(io.Discard, func(d digest) string {
		b.digests = append(b.digests, d)
		return ""
	})
	_ = b.each(w.write, w.signature) // neither fails
}

func (b *build) encodeTable(t []byte) []byte {
	t = append(t, magic...)
	t = append(t, b.head.encode()...)
	for i := range b.sections {
		t = append(t, b.sections[i].encode()...)
		t = appendRows(t, b.sections[i].rows)
	}
	return t
}

// each goes through a body in order.
func (b *build) each(write func([]byte) error, signature func() error) error {
	if err := write(b.table); err != nil {
		return err
	}
	if err := signature(); err != nil {
		return err
	}
	for i := range b.sections {
		s := &b.sections[i]
		if s.end == nil {
			continue
		}
		for _, f := range s.frames {
			if err := write(f); err != nil {
				return err
			}
		}
		if err := write(s.end); err != nil {
			return err
		}
		if err := signature(); err != nil {
			return err
		}
	}
	if err := write(b.last); err != nil {
		return err
	}
	return signature()
}

// length gives the bytes without signatures, and makes the last frame.
func (b *build) length() int64 {
	var all totals
	n := int64(len(b.table))
	for i := range b.sections {
		s := &b.sections[i]
		if s.end == nil {
			continue
		}
		all.add(s.totals)
		for _, f := range s.frames {
			n += int64(len(f))
		}
		n += int64(len(s.end))
	}
	b.last = all.encode(frameLast)
	return n + int64(len(b.last))
}

// write writes the whole body.
func (b *build) write(w io.Writer, sign signer) error {
	at := 0
	return b.each(func(p []byte) error {
		_, err := w.Write(p)
		return err
	}, func() error {
		d := b.digests[at]
		at++
		_, err := w.Write(signatureFrame(d, sign(d)))
		return err
	})
}

// signatures gives how many bytes the signatures take, if each is as long as the one of no bytes.
func (b *build) signatures(sign signer) int64 {
	return int64(len(b.digests) * len(signatureFrame(digest{}, sign(digest{}))))
}
