package bpe_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"unicode"
)

// fragments are what tokenizers get wrong. Documents are made of them.
var fragments = []string{
	" ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "\r", " \n ", "\n  \n", "\v", "\f", "\u0085", "\u00a0", "\u2003", "\u2028", "\u3000", "\u1680",
	"a", "A", "the", " the", "Hello", " world", "HTTPServer", "naïve", "na\u0308ive", "ÉCOLE", "E\u0301cole", "straße",
	"'s", "'S", "'ll", "'LL", "'lL", "'re", "'ve", "'VE", "'m", "'d", "'t", "'x", "'", "''", "'r", "'l", " 's", "don't", "I'M",
	"0", "7", "42", "123", "1234", "1234567", "3.14", "1e-9", "٣٤٥", "¼", "Ⅷ", "㊿", "１２３",
	"!", "?!", "...", " ...", "—", "{}", "();\n", "//", "/* */", " == ", "\\", "\"", "<", ">", "<|", "|>", "$", "€", "№",
	"漢字", "かな", "カタカナ", "한국어", "\u1112\u1161\u11ab", "ไทย", "हिन्दी", "العربية", "עִבְרִית", "ქართული", "Ελληνικά", "Кириллица", "ﬁ", "ﬆ", "ſ", "K", "Å",
	"😀", "👩‍👩‍👧‍👦", "👍🏽", "🇩🇪", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "❤️", "1️⃣", "\u200d", "\u200b", "\ufeff", "\ufffd", "\ufffe",
	"\u0301", "\u0323\u0307", "q\u0307\u0323", "\u0344", "a\u0315\u0300\u05ae\u0062", "\u0f73", "𝅗𝅥", "𐐷", "𠜎", "\U0010ffff", "\ud7ff", "\ue000", "\U00010000",
	"\x00", "\x01", "\x1b[31m", "\x1c", "\x7f", "\u0080", "\u00ad",
	"<|im_start|>", "<|im_end|>", "<|eot_id|>", "<|begin_of_text|>", "<|start_header_id|>", "<|endoftext|>", "<think>", "</think>", "<|im_start", "<tool_call>", "<|eot_id|",
	"aaaaaaaaaaaaaaaaaaaaaaaa", "\n\n\n\n\n\n", "                    ", "________", "=======", "中中中中中中", "1111111111111",
}

// document is a text of fragments and of characters of all planes.
func document(r *rand.Rand) string {
	var b strings.Builder
	for range 1 + r.IntN(200) {
		switch r.IntN(8) {
		case 0:
			b.WriteRune(character(r))
		case 1:
			b.WriteString(strings.Repeat(fragments[r.IntN(len(fragments))], 1+r.IntN(12)))
		default:
			b.WriteString(fragments[r.IntN(len(fragments))])
		}
	}
	return b.String()
}

// character is one of any plane, of those that this Go knows: later versions of Unicode have other ones for letters.
func character(r *rand.Rand) rune {
	limits := []rune{0x80, 0x800, 0x3000, 0x10000, 0x20000, 0x40000, unicode.MaxRune + 1}
	for {
		c := rune(r.IntN(int(limits[r.IntN(len(limits))])))
		if unicode.In(c, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.Cc, unicode.Cf, unicode.Co) {
			return c
		}
	}
}

// unicodeDocuments are all characters this Go knows, in their order, some thousands a document, each with its neighbours, and
// alone between letters.
func unicodeDocuments() (all []string) {
	var b strings.Builder
	n := 0
	for c := rune(0); c <= unicode.MaxRune; c++ {
		if c >= 0xf0000 && c&0xff != 0 || c >= 0x20000 && c < 0xe0000 && c&7 != 0 {
			continue // planes of nothing but Han and private use
		}
		if !unicode.In(c, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Z, unicode.Cc, unicode.Cf, unicode.Co) {
			continue
		}
		fmt.Fprintf(&b, "%c%c x%cy ", c, c, c)
		if n++; n%1000 == 0 {
			all = append(all, b.String())
			b.Reset()
		}
	}
	return append(all, b.String())
}

// longDocuments have words that need the heap, and rows of combining characters that normalization must not break up.
func longDocuments() []string {
	r := rand.New(rand.NewPCG(7, 7))
	letters := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = 'a' + byte(r.IntN(26))
		}
		return string(b)
	}
	return []string{
		letters(127), letters(128), letters(129), letters(1000), letters(8000),
		strings.Repeat("a", 5000), strings.Repeat("ab", 3000), strings.Repeat("é", 2000), strings.Repeat("\u4e2d\u6587", 800),
		strings.Repeat(" ", 3000), strings.Repeat(" ", 3000) + "x", strings.Repeat("\n", 3000), strings.Repeat("-", 3000), strings.Repeat("ACGT", 1500),
		"e" + strings.Repeat("\u0301", 100), "e" + strings.Repeat("\u0301\u0323", 40) + "x", strings.Repeat("\u0344", 50), strings.Repeat("\u0f73", 31) + "a",
	}
}
