package bpe_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/routerfleet/routerfleet/router/tokens/bpe"
)

// maxFuzzedText bounds texts for the twin, which takes the cube of a word's length.
const maxFuzzedText = 2000

func FuzzEncodeTwin(f *testing.F) {
	type pair struct {
		plain, cached *bpe.Tokenizer
		twin          *twin
		strips        bool
	}
	var all []pair
	for name, make := range madeUp {
		all = append(all, pair{load(f, make(), uncached), load(f, make(), bpe.Options{WordCacheBytes: 1 << 14, MessageCacheBytes: 1 << 16}),
			newTwin(make(), learnt), name == "gpt" || name == "roberta"})
	}
	r := rand.New(rand.NewPCG(20, 21))
	for range 30 {
		f.Add(document(r)[:])
	}
	for _, s := range fragments {
		f.Add(s + " " + s + s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > maxFuzzedText {
			return
		}
		for _, p := range all {
			got, err := p.plain.Encode(nil, s, bpe.Bare)
			if !utf8.ValidString(s) {
				if err == nil {
					t.Fatalf("%q is no UTF-8 and was encoded", s)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if manyMarks(s) {
				continue // the twin normalizes by package norm
			}
			if want := p.twin.encode(s); !slices.Equal(got, want) {
				t.Fatalf("%q: got %v, want %v", s, got, want)
			}
			for range 2 {
				if again := encode(t, p.cached, s, bpe.Bare); !slices.Equal(again, got) {
					t.Fatalf("%q: %v with caches, %v without", s, again, got)
				}
			}
			if back, err := p.plain.Decode(nil, got); !p.strips && (err != nil || string(back) != p.twin.normalizeParts(s)) {
				t.Fatalf("%q came back as %q (%v)", s, back, err)
			}
		}
	})
}

// normalizeParts normalizes the text between added tokens, as encoding does.
func (w *twin) normalizeParts(s string) string {
	var b strings.Builder
	var ids []uint32
	given := 0
	w.cut(s, false, func(c string) string { return c }, &ids, func(plain string) {
		at := given + strings.Index(s[given:], plain)
		b.WriteString(s[given:at])
		b.WriteString(w.normalize(plain))
		given = at + len(plain)
	})
	return b.String() + s[given:]
}

// manyMarks says whether 20 characters beyond ASCII follow each other, of which norm could count 30 marks.
func manyMarks(s string) bool {
	row := 0
	for _, r := range s {
		if row++; r < utf8.RuneSelf {
			row = 0
		}
		if row == 20 {
			return true
		}
	}
	return false
}

// A whole vocabulary is more than a fuzzer can mutate: it has one, and the rest of the file is what is fuzzed.
func FuzzLoad(f *testing.F) {
	model := qwenLike()["model"]
	whole, err := json.Marshal(model)
	if err != nil {
		f.Fatal(err)
	}
	// Short ones, or the fuzzer spends its time on making them shorter.
	id := len(model.(object)["vocab"].(object))
	token := func(flags string) string { return fmt.Sprintf(`[{"id":%d,"content":"<|im_end|>"%s}]`, id, flags) }
	byRegex := fmt.Sprintf(`{"type":"Split","pattern":{"Regex":%q},"behavior":"Isolated"}`, gptRegex)
	for _, c := range [][5]string{
		{token(`,"lstrip":true`), `{"type":"NFC"}`, byRegex, "null", "{}"},
		{token(`,"rstrip":true,"normalized":true`), "null", `{"type":"ByteLevel"}`, `{"type":"ByteLevel"}`, "{}"},
		{token(`,"single_word":true`), "null", `{"type":"Sequence","pretokenizers":[{"type":"Digits"},{"type":"ByteLevel","add_prefix_space":false}]}`,
			`{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"s"}},{"Sequence":{"id":"A"}}],"special_tokens":{"s":{"ids":[1]}}}`, "{}"},
		{"[]", `{"type":"Sequence","normalizers":[]}`, "null", "null", `{"model":{"type":"WordPiece","vocab":{"a":0},"max_input_chars_per_word":9}}`},
		{"[]", "null", "null", "null", `{"model":{"vocab":[["a",0.1]],"merges":["a b",["a","b"]]},"added_tokens":[{"id":0}]}`},
	} {
		f.Add([]byte(c[0]), []byte(c[1]), []byte(c[2]), []byte(c[3]), []byte(c[4]))
	}
	f.Fuzz(func(t *testing.T, added, normalizer, preTokenizer, postProcessor, other []byte) {
		if tok, err := bpe.Load(bytes.NewReader(other), bpe.Options{}); err == nil {
			encodesWhatItLoaded(t, tok)
		}
		file := fmt.Appendf(nil, `{"added_tokens":%s,"normalizer":%s,"pre_tokenizer":%s,"post_processor":%s,"model":%s}`, added, normalizer, preTokenizer, postProcessor, whole)
		if tok, err := bpe.Load(bytes.NewReader(file), bpe.Options{WordCacheBytes: 1 << 12, MessageCacheBytes: 1 << 14}); err == nil {
			encodesWhatItLoaded(t, tok)
		}
	})
}

func encodesWhatItLoaded(t *testing.T, tok *bpe.Tokenizer) {
	const s = "It's <|im_start|>the 1st text, na\u0308ive:\n\n  Hello  <|im_end|> 漢字😀"
	ids, err := tok.Encode(nil, s, bpe.Framed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tok.Decode(nil, ids); err != nil {
		t.Fatalf("%v: %v", ids, err)
	}
	var parts []uint32
	for p := range tok.Parts(s) {
		if parts, err = tok.Encode(parts, p, bpe.Bare); err != nil {
			t.Fatal(err)
		}
	}
	if whole, err := tok.Encode(nil, s, bpe.Bare); err != nil || !slices.Equal(whole, parts) {
		t.Fatalf("in parts %v, whole %v (%v)", parts, whole, err)
	}
}
