package bpe

import (
	"slices"
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// addedSet finds added tokens in text: the leftmost, and of those that begin there the longest.
type addedSet struct {
	tokens  []addedToken // sorted by Content
	first   [256]bool    // bytes that a token begins with
	only    string       // that byte, if there is only one
	isWords bool         // a token is SingleWord: whether it matches depends on its neighbours
}

// splitAdded gives the tokens to look for in text as it comes and those to look for in normalized text.
func splitAdded(all []addedToken, normalize bool) (asIs, normalized *addedSet, err error) {
	var plain, changed []addedToken
	for _, a := range all {
		if !a.Normalized {
			plain = append(plain, a)
			continue
		}
		if normalize {
			a.Content = nfc(a.Content)
		}
		changed = append(changed, a)
	}
	if asIs, err = newAddedSet(plain); err != nil {
		return nil, nil, err
	}
	normalized, err = newAddedSet(changed)
	return asIs, normalized, err
}

func newAddedSet(tokens []addedToken) (*addedSet, error) {
	s := &addedSet{tokens: tokens}
	slices.SortFunc(s.tokens, func(a, b addedToken) int { return strings.Compare(a.Content, b.Content) })
	firsts, strips, spaced := 0, false, false
	for i, a := range tokens {
		if i > 0 && tokens[i-1].Content == a.Content {
			return nil, unsupported("two added tokens are %.100q", a.Content)
		}
		if b := a.Content[0]; !s.first[b] {
			s.first[b] = true
			firsts++
			s.only = a.Content[:1]
		}
		strips = strips || a.Rstrip
		spaced = spaced || len(trimLeft(a.Content)) < len(a.Content)
		s.isWords = s.isWords || a.SingleWord
	}
	if firsts != 1 {
		s.only = ""
	}
	if strips && spaced {
		return nil, unsupported("one added token takes the spaces behind it (rstrip) and another begins with a space: the reference does not say which wins")
	}
	return s, nil
}

// longestAt gives the longest token that text[i:] begins with, as a place in s.tokens, or -1.
func (s *addedSet) longestAt(text string, i int) int {
	found, lo, hi := -1, 0, len(s.tokens)
	// The tokens [lo, hi) begin with text[i:i+depth].
	for depth := 0; lo < hi; depth++ {
		if len(s.tokens[lo].Content) == depth {
			found = lo
			lo++
		}
		if i+depth == len(text) {
			break
		}
		rest, next := s.tokens[lo:hi], text[i+depth]
		hi = lo + sort.Search(len(rest), func(k int) bool { return rest[k].Content[depth] > next })
		lo += sort.Search(len(rest), func(k int) bool { return rest[k].Content[depth] >= next })
	}
	return found
}

// begin gives the next place from i on where a token could begin, or len(text).
func (s *addedSet) begin(text string, i int) int {
	if s.only != "" {
		if n := strings.IndexByte(text[i:], s.only[0]); n >= 0 {
			return i + n
		}
		return len(text)
	}
	if len(s.tokens) == 0 {
		return len(text)
	}
	for i < len(text) && !s.first[text[i]] {
		i++
	}
	return i
}

// cutter cuts text at the added tokens of a set.
type cutter struct {
	set  *addedSet
	text string
	done int // up to where text was given out
	scan int // from where tokens are looked for
}

// next gives the text before the next token, which may be empty, and the token, or nil behind the last one. It may be
// called until it gave nil.
func (c *cutter) next() (before string, token *addedToken) {
	for {
		start := c.set.begin(c.text, c.scan)
		if start == len(c.text) {
			before, c.done = c.text[c.done:], start
			return before, nil
		}
		k := c.set.longestAt(c.text, start)
		if k < 0 {
			c.scan = start + 1
			continue
		}
		token = &c.set.tokens[k]
		stop := start + len(token.Content)
		c.scan = stop
		// The reference looks on behind a token that is none because of its neighbours, not within it.
		if token.SingleWord && (endsInWord(c.text[:start]) || beginsWithWord(c.text[stop:])) {
			continue
		}
		if token.Lstrip {
			start = max(c.done, len(trimRight(c.text[:start])))
		}
		if token.Rstrip {
			stop = len(c.text) - len(trimLeft(c.text[stop:]))
		}
		before, c.done = c.text[c.done:start], stop
		return before, token
	}
}

func trimLeft(s string) string  { return strings.TrimLeftFunc(s, unicode.IsSpace) }
func trimRight(s string) string { return strings.TrimRightFunc(s, unicode.IsSpace) }

func endsInWord(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return s != "" && isWord(r)
}

func beginsWithWord(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return s != "" && isWord(r)
}

// isWord is \w as UTS 18 has it (annex C).
func isWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.In(r, unicode.Nl, unicode.Other_Alphabetic, unicode.M, unicode.Nd, unicode.Pc, unicode.Join_Control)
}
