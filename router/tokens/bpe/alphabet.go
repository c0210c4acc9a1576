package bpe

import "sync"

// alphabet is how vocabularies write bytes as characters: the printable ones of Latin-1 stand for themselves, the other 68
// for U+0100 and up in their order, so that a space is written Ġ (U+0120).
type alphabet struct {
	bytes map[rune]byte
	runes [256]rune
}

var byteAlphabet = sync.OnceValue(func() *alphabet {
	a := &alphabet{bytes: make(map[rune]byte, 256)}
	next := rune(0x100)
	for b := range 256 {
		r := rune(b)
		if !(b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae) {
			r = next
			next++
		}
		a.runes[b], a.bytes[r] = r, byte(b)
	}
	return a
})

// read appends the bytes that written stands for to dst, and says whether all its characters are of the alphabet.
func (a *alphabet) read(dst []byte, written string) ([]byte, bool) {
	for _, r := range written {
		b, ok := a.bytes[r]
		if !ok {
			return dst, false
		}
		dst = append(dst, b)
	}
	return dst, true
}

// neverInUTF8 says whether no valid text has the byte.
func neverInUTF8(b int) bool { return b == 0xc0 || b == 0xc1 || b > 0xf4 }
