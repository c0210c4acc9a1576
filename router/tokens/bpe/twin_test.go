package bpe_test

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// twin does what a made-up file says, in the plainest way: the pattern is matched as it stands in the file, pairs are
// merged one at a time, added tokens are tried one by one at each place.
type twin struct {
	file     object
	vocab    map[string]uint32 // raw bytes to id
	rank     map[[2]string]int
	patterns []node
}

func newTwin(file object, merges [][2]string) *twin {
	w := &twin{file: file, vocab: map[string]uint32{}, rank: map[[2]string]int{}}
	raw := map[string]string{}
	for b := range 256 {
		raw[letterOf(b)] = string([]byte{byte(b)})
	}
	for s, id := range file["model"].(object)["vocab"].(object) {
		var text strings.Builder
		for _, c := range s {
			text.WriteString(raw[string(c)])
		}
		w.vocab[text.String()] = uint32(id.(int))
	}
	for i, m := range merges {
		w.rank[m] = i
	}
	pre := file["pre_tokenizer"].(object)
	steps := []any{pre}
	if pre["type"] == "Sequence" {
		steps = pre["pretokenizers"].([]any)
	}
	for _, s := range steps {
		switch s := s.(object); {
		case s["type"] == "Split":
			w.patterns = append(w.patterns, parse(s["pattern"].(object)["Regex"].(string)))
		case s["type"] == "Digits":
			w.patterns = append(w.patterns, parse(`\p{N}|\P{N}+`))
		case s["use_regex"] == true:
			w.patterns = append(w.patterns, parse(gptRegex))
		}
	}
	return w
}

func (w *twin) normalize(s string) string {
	if w.file["normalizer"] == nil {
		return s
	}
	return norm.NFC.String(s) // texts of the tests that use the twin have no 30 marks in a row
}

// encode gives the ids of s without the post-processor's.
func (w *twin) encode(s string) (ids []uint32) {
	same := func(s string) string { return s }
	w.cut(s, false, same, &ids, func(s string) {
		w.cut(w.normalize(s), true, w.normalize, &ids, func(s string) {
			pre := w.file["pre_tokenizer"].(object)
			if pre["add_prefix_space"] == true && !strings.HasPrefix(s, " ") {
				s = " " + s
			}
			w.split(s, w.patterns, &ids)
		})
	})
	return ids
}

// cut gives text between added tokens to plain, and adds the tokens' ids.
func (w *twin) cut(s string, normalized bool, content func(string) string, ids *[]uint32, plain func(string)) {
	done := 0
	give := func(to int) {
		if to > done {
			plain(s[done:to])
		}
	}
	for i := 0; i < len(s); {
		var best object
		for _, a := range w.file["added_tokens"].([]any) {
			a := a.(object)
			c := content(a["content"].(string))
			if a["normalized"] == normalized && strings.HasPrefix(s[i:], c) && (best == nil || len(c) > len(content(best["content"].(string)))) {
				best = a
			}
		}
		if best == nil {
			i++
			continue
		}
		start, stop := i, i+len(content(best["content"].(string)))
		i = stop
		if best["single_word"] == true && (wordAt(s[:start], utf8.DecodeLastRuneInString) || wordAt(s[stop:], utf8.DecodeRuneInString)) {
			continue
		}
		if best["lstrip"] == true {
			start = max(done, len(strings.TrimRightFunc(s[:start], unicode.IsSpace)))
		}
		if best["rstrip"] == true {
			stop = len(s) - len(strings.TrimLeftFunc(s[stop:], unicode.IsSpace))
		}
		give(start)
		*ids = append(*ids, uint32(best["id"].(int)))
		done = stop
	}
	give(len(s))
}

func wordAt(s string, decode func(string) (rune, int)) bool {
	r, _ := decode(s)
	return s != "" && (unicode.IsLetter(r) || unicode.IsMark(r) || unicode.Is(unicode.Nd, r) || unicode.Is(unicode.Nl, r) ||
		unicode.Is(unicode.Pc, r) || unicode.Is(unicode.Other_Alphabetic, r) || r == 0x200c || r == 0x200d)
}

func (w *twin) split(s string, patterns []node, ids *[]uint32) {
	if len(patterns) == 0 {
		w.word(s, ids)
		return
	}
	for len(s) > 0 {
		n := firstWord(patterns[0], s)
		w.split(s[:n], patterns[1:], ids)
		s = s[n:]
	}
}

func (w *twin) word(s string, ids *[]uint32) {
	if id, ok := w.vocab[s]; ok && w.file["model"].(object)["ignore_merges"] == true {
		*ids = append(*ids, id)
		return
	}
	for _, p := range mergeNaively(s, w.rank) {
		*ids = append(*ids, w.vocab[p])
	}
}

// mergeNaively merges the leftmost pair of the lowest rank until there is none.
func mergeNaively(s string, rank map[[2]string]int) []string {
	var parts []string
	for i := range len(s) {
		parts = append(parts, s[i:i+1])
	}
	for {
		at, lowest := -1, len(rank)
		for i := range len(parts) - 1 {
			if r, ok := rank[[2]string{parts[i], parts[i+1]}]; ok && r < lowest {
				at, lowest = i, r
			}
		}
		if at < 0 {
			return parts
		}
		parts = slices.Concat(parts[:at], []string{parts[at] + parts[at+1]}, parts[at+2:])
	}
}
