package bpe_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/router/tokens/bpe"
)

func TestLoadRefusesAWordPieceFileByItsName(t *testing.T) {
	_, err := bpe.LoadFile("testdata/wordpiece.json", bpe.Options{})
	if !errors.Is(err, bpe.ErrUnsupported) {
		t.Fatalf("%v is no ErrUnsupported", err)
	}
	for _, want := range []string{"testdata/wordpiece.json", "WordPiece", "byte-level BPE", "run without"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
}

// A change to a file that loads, and what the refusal names.
var refused = []struct {
	name   string
	change func(f, model object)
	want   string
}{
	{"Unigram", func(_, m object) { m["type"] = "Unigram" }, "type Unigram"},
	{"Unigram by its vocabulary", func(_, m object) { delete(m, "type"); m["vocab"] = []any{[]any{"a", 0.5}} }, "type Unigram"},
	{"WordLevel", func(_, m object) { delete(m, "type"); delete(m, "merges") }, "type WordLevel"},
	{"no model", func(f, _ object) { delete(f, "model") }, "type missing"},
	{"byte_fallback", func(_, m object) { m["byte_fallback"] = true }, "byte_fallback, as SentencePiece"},
	{"dropout", func(_, m object) { m["dropout"] = 0.1 }, "dropout of 0.1"},
	{"prefix", func(_, m object) { m["continuing_subword_prefix"] = "##" }, `continuing_subword_prefix "##"`},
	{"suffix", func(_, m object) { m["end_of_word_suffix"] = "</w>" }, `end_of_word_suffix "</w>"`},

	{"normalizer", func(f, _ object) { f["normalizer"] = object{"type": "NFKC"} }, `type "NFKC"`},
	{"normalizer in a sequence", func(f, _ object) {
		f["normalizer"] = object{"type": "Sequence", "normalizers": []any{object{"type": "NFC"}, object{"type": "Lowercase"}}}
	}, `type "Lowercase"`},

	{"no pre-tokenizer", func(f, _ object) { f["pre_tokenizer"] = nil }, "does not end in ByteLevel"},
	{"Metaspace", func(f, _ object) { f["pre_tokenizer"] = object{"type": "Metaspace"} }, "does not end in ByteLevel"},
	{"a step behind ByteLevel", func(f, _ object) {
		f["pre_tokenizer"] = object{"type": "Sequence", "pretokenizers": []any{byteLevel(false, false), byteLevel(false, false)}}
	}, "steps behind ByteLevel"},
	{"Punctuation", func(f, _ object) {
		f["pre_tokenizer"] = object{"type": "Sequence", "pretokenizers": []any{object{"type": "Punctuation"}, byteLevel(false, true)}}
	}, `type "Punctuation"`},
	{"an unknown expression", func(f, _ object) { f["pre_tokenizer"] = split(`\w+|\W+`) }, `\\w+|\\W+`},
	{"a split by a text", func(f, _ object) { firstStep(f)["pattern"] = object{"String": " "} }, "no Regex"},
	{"a split that removes words", func(f, _ object) { firstStep(f)["behavior"] = "Removed" }, `behavior "Removed" and invert false`},
	{"a split that removes what it leaves out", func(f, _ object) {
		with(firstStep(f), object{"pattern": object{"Regex": bpe.Regexes["deepseek-digits"]}, "behavior": "Removed", "invert": true})
	}, `behavior "Removed" and invert true`},
	{"a split that isolates what is between", func(f, _ object) { firstStep(f)["invert"] = true }, `behavior "Isolated" and invert true`},
	{"a space before each word", func(f, _ object) {
		f["pre_tokenizer"].(object)["pretokenizers"].([]any)[1] = byteLevel(true, false)
	}, "space before each word"},
	{"a space before each word by default", func(f, _ object) {
		f["pre_tokenizer"].(object)["pretokenizers"].([]any)[1] = object{"type": "ByteLevel", "use_regex": false}
	}, "space before each word"},
	{"too many steps", func(f, _ object) {
		f["normalizer"] = object{"type": "Sequence", "normalizers": slices.Repeat([]any{object{"type": "NFC"}}, 17)}
	}, "more than 16 steps"},

	{"BertProcessing", func(f, _ object) { f["post_processor"] = object{"type": "BertProcessing"} }, `type "BertProcessing"`},
	{"a template without the text", func(f, _ object) { template(f)["single"] = []any{} }, "leaves the text out"},
	{"a template with two texts", func(f, _ object) {
		template(f)["single"] = slices.Repeat([]any{object{"Sequence": object{"id": "A"}}}, 2)
	}, "not tokens around the text"},
	{"a template with another text", func(f, _ object) { template(f)["single"] = []any{object{"Sequence": object{"id": "B"}}} }, "not tokens around the text"},
	{"a template of unknown tokens", func(f, _ object) { template(f)["special_tokens"] = object{} }, "special_tokens lack"},
	{"a template of unknown ids", func(f, _ object) {
		template(f)["special_tokens"].(object)["<|begin_of_text|>"].(object)["ids"] = []any{99999}
	}, "id 99999, which is no token"},
	{"a template of many tokens", func(f, _ object) {
		template(f)["special_tokens"].(object)["<|begin_of_text|>"].(object)["ids"] = slices.Repeat([]any{1}, 65)
	}, "more than 64 tokens"},

	{"a byte without a token", func(_, m object) { delete(m["vocab"].(object), "a"); m["merges"] = []any{} }, `byte 0x61, written 'a'`},
	{"two tokens of an id", func(_, m object) { m["vocab"].(object)["zzzz"] = 7 }, "two tokens with id 7"},
	{"an id too high", func(_, m object) { m["vocab"].(object)["zzzz"] = 1 << 20 }, "id 1048576 is not below"},
	{"a token too long", func(_, m object) { m["vocab"].(object)[strings.Repeat("z", 4097)] = 5000 }, "has 4097 bytes"},
	{"a merge to no token", func(_, m object) { m["merges"] = []any{"z z"} }, `"z" and "z"`},

	{"an added token of another id", func(f, _ object) { added(f, 3)["id"] = 3000 }, "the reference gives it"},
	{"an added token of a taken id", func(f, m object) { m["vocab"].(object)["zzzz"] = added(f, 0)["id"] }, "the reference gives it"},
	{"an added token of nothing", func(f, _ object) { added(f, 3)["content"] = "" }, "is empty"},
	{"an added token twice", func(f, _ object) { added(f, 3)["content"] = added(f, 2)["content"] }, "there twice"},
	{"a token that takes spaces beside one that begins with one", func(f, _ object) {
		added(f, 3)["rstrip"], added(f, 4)["content"] = true, "\tx"
	}, "the reference does not say which wins"},
}

func firstStep(f object) object {
	return f["pre_tokenizer"].(object)["pretokenizers"].([]any)[0].(object)
}
func template(f object) object {
	return f["post_processor"].(object)["processors"].([]any)[1].(object)
}
func added(f object, i int) object { return f["added_tokens"].([]any)[i].(object) }

func TestLoadRefusesByNameWhatItCannotFollow(t *testing.T) {
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			f := llamaLike()
			c.change(f, f["model"].(object))
			_, err := bpe.Load(bytes.NewReader(text(t, f)), bpe.Options{})
			if !errors.Is(err, bpe.ErrUnsupported) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: want an ErrUnsupported that says %s", err, c.want)
			}
		})
	}
}

func TestLoadTellsADamagedFileFromAnUnsupportedOne(t *testing.T) {
	whole := string(text(t, llamaLike()))
	for _, s := range []string{"", "[]", "null", whole[:len(whole)/2], `{"model":{"vocab":3}}`, `{"model":{"vocab":{"a":-1}}}`, `{"model":{"vocab":{"a":1.5}}}`,
		`{"model":{"merges":["ab"]}}`, `{"model":{"merges":["a b c"]}}`, `{"model":{"merges":[["a"]]}}`, `{"model":{"merges":[["a","b","c"]]}}`,
		`{"model":{"merges":[7]}}`, `{"model":{"merges":[[1,2]]}}`, `{"added_tokens":[{"id":"x"}]}`, `{"added_tokens":{}}`, `{"normalizer":[]}`} {
		_, err := bpe.Load(strings.NewReader(s), bpe.Options{})
		if err == nil || errors.Is(err, bpe.ErrUnsupported) || !strings.Contains(err.Error(), "no tokenizer.json") {
			t.Errorf("%.50q: %v", s, err)
		}
	}
	if _, err := bpe.LoadFile(filepath.Join(t.TempDir(), "tokenizer.json"), bpe.Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestMergesAreReadAsTextsAndAsPairs(t *testing.T) {
	f, g := qwenLike(), qwenLike()
	g["model"].(object)["merges"] = mergesAsTexts(learnt)
	s := strings.Join(fragments, "")
	a, b := encode(t, load(t, f, uncached), s, bpe.Bare), encode(t, load(t, g, uncached), s, bpe.Bare)
	if len(a) >= len(s)*3/4 || !slices.Equal(a, b) {
		t.Errorf("%d ids by pairs, %d by texts, of %d bytes", len(a), len(b), len(s))
	}
}

// Phi 4 writes it so.
func TestASplitMayRemoveWhatIsBetweenWordsIfThereIsNothing(t *testing.T) {
	f, s := llamaLike(), strings.Join(fragments, "")
	want := encode(t, load(t, f, uncached), s, bpe.Bare)
	with(firstStep(f), object{"behavior": "Removed", "invert": true})
	if got := encode(t, load(t, f, uncached), s, bpe.Bare); !slices.Equal(got, want) {
		t.Errorf("%d ids, want %d", len(got), len(want))
	}
}

// A vocabulary may have an added token too, in its own writing, which no word is.
func TestAnAddedTokenOfTheVocabularyKeepsItsID(t *testing.T) {
	f := qwenLike()
	vocab := f["model"].(object)["vocab"].(object)
	id := len(vocab)
	vocab["<｜end▁of▁text｜>"] = id
	f["added_tokens"] = numbered(vocab, special(0, "<｜end▁of▁text｜>"), special(0, "<pad>"))
	tok := load(t, f, bpe.Options{})
	if got := encode(t, tok, "<｜end▁of▁text｜><pad>", bpe.Bare); !slices.Equal(got, []uint32{uint32(id), uint32(id + 1)}) {
		t.Errorf("got %v, want %d and its successor", got, id)
	}
}
