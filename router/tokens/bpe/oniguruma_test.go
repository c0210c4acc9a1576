//go:build npm

package bpe_test

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/routerfleet/routerfleet/router/tokens/bpe"
	"github.com/routerfleet/routerfleet/test/npm"
)

// oniguruma is the engine that the reference matches with. It gives the ends of all matches of each expression in each text
// as UTF-16 offsets, and those of text that lies between two matches.
const oniguruma = `
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
const require = createRequire(process.cwd() + "/");
const { loadWASM, OnigScanner, OnigString } = require("vscode-oniguruma");
await loadWASM(readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm")).buffer);
const [expressions, texts] = JSON.parse(readFileSync(0, "utf8"));
const ends = (scanner, text) => {
  const s = new OnigString(text), out = [];
  for (let at = 0; at < text.length; ) {
    const m = scanner.findNextMatchSync(s, at);
    if (!m) { out.push(text.length); break; }
    const { start, end } = m.captureIndices[0];
    if (start > at) out.push(start);
    out.push(end);
    at = end;
  }
  s.dispose();
  return out;
};
process.stdout.write(JSON.stringify(expressions.map((e) => {
  const scanner = new OnigScanner([e]);
  return texts.map((t) => ends(scanner, t));
})));
`

func TestEveryPatternCutsAsTheReferencesEngineDoes(t *testing.T) {
	packages, err := npm.Install(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	texts := append(longDocuments(), unicodeDocuments()...)
	r := rand.New(rand.NewPCG(60, 61))
	for range 100 {
		texts = append(texts, document(r))
	}
	texts = append(texts, "it'\u017fhe and 'ſtill", strings.Repeat("a\r\n \t", 30))
	texts = known(t, packages, texts)
	var names, expressions []string
	for name, regex := range bpe.Regexes {
		names, expressions = append(names, name), append(expressions, regex)
	}
	want := ask(t, packages, expressions, texts)
	for i, name := range names {
		words := 0
		for j, text := range texts {
			got := utf16Offsets(text, bpe.Words(expressions[i], text))
			words += len(got)
			if !slices.Equal(got, want[i][j]) {
				at := 0
				for got[at] == want[i][j][at] {
					at++
				}
				t.Errorf("%s differs in text %d at word %d: it ends at %d, want %d: %q", name, j, at, got[at], want[i][j][at],
					string(utf16.Decode(utf16.Encode([]rune(text))[max(0, got[at]-8):])[:10]))
			}
		}
		t.Logf("%s: %d words", name, words)
	}
}

// ask runs oniguruma.
func ask(t *testing.T, packages npm.Folder, expressions, texts []string) (ends [][][]int) {
	t.Helper()
	input, err := json.Marshal([2][]string{expressions, texts})
	if err != nil {
		t.Fatal(err)
	}
	out, err := packages.Run(t.Context(), oniguruma, input)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &ends); err != nil {
		t.Fatal(err)
	}
	return ends
}

// known leaves out the characters that the engine, whose Unicode is older than Go's, takes for unassigned.
func known(t *testing.T, packages npm.Folder, texts []string) (out []string) {
	t.Helper()
	all := map[rune]bool{}
	for _, text := range texts {
		for _, r := range text {
			all[r] = true
		}
	}
	characters := slices.Sorted(maps.Keys(all))
	var each []string
	for _, r := range characters {
		each = append(each, string(r))
	}
	// An unassigned character is cut off the letter behind it.
	for i := range each {
		each[i] += "a"
	}
	unassigned := map[rune]bool{}
	for i, ends := range ask(t, packages, []string{`\p{Cn}`}, each)[0] {
		if len(ends) > 1 {
			unassigned[characters[i]] = true
		}
	}
	t.Logf("%d of %d characters are unknown to the engine", len(unassigned), len(characters))
	if len(unassigned) > len(characters)/5 {
		t.Errorf("too many characters are unknown")
	}
	for _, text := range texts {
		out = append(out, strings.Map(func(r rune) rune {
			if unassigned[r] {
				return -1
			}
			return r
		}, text))
	}
	return out
}

// utf16Offsets turns offsets of bytes, which ascend, into those of UTF-16.
func utf16Offsets(text string, ends []int) []int {
	out := make([]int, 0, len(ends))
	n, at := 0, 0
	for i, r := range text {
		for at < len(ends) && ends[at] == i {
			out = append(out, n)
			at++
		}
		n += utf16.RuneLen(r)
	}
	for range ends[at:] {
		out = append(out, n)
	}
	return out
}
