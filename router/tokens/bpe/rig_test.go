package bpe_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/router/tokens/bpe"
)

// object is a JSON object of a made-up tokenizer.json.
type object = map[string]any

const (
	llamaRegex = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwenRegex  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	gptRegex   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
)

// written writes bytes in the alphabet of vocabularies.
func written(raw string) string {
	var b strings.Builder
	for _, c := range []byte(raw) {
		b.WriteString(letterOf(int(c)))
	}
	return b.String()
}

// letterOf counts as the alphabet's makers did: what can be printed stays, the rest follows from U+0100 on.
func letterOf(c int) string {
	others := 0
	for b := range 256 {
		printable := b > 32 && b < 127 || b > 160 && b != 173
		if b == c && printable {
			return string(rune(c))
		}
		if b == c {
			return string(rune(256 + others))
		}
		if !printable {
			others++
		}
	}
	panic(c)
}

// merges are learnt from the fragments, as trainers do it: the most frequent pair, again and again.
var learnt = learn(250)

func learn(n int) (merges [][2]string) {
	var words [][]string
	for _, f := range fragments {
		if strings.Contains(f, "<") {
			continue // added tokens are to be none of the vocabulary's
		}
		var w []string
		for _, c := range []byte(f) {
			w = append(w, string([]byte{c}))
		}
		words = append(words, w)
	}
	for range n {
		count := map[[2]string]int{}
		for _, w := range words {
			for i := range len(w) - 1 {
				count[[2]string{w[i], w[i+1]}]++
			}
		}
		pairs := make([][2]string, 0, len(count))
		for p := range count {
			pairs = append(pairs, p)
		}
		slices.SortFunc(pairs, func(a, b [2]string) int {
			return cmp.Or(count[b]-count[a], strings.Compare(a[0], b[0]), strings.Compare(a[1], b[1]))
		})
		best := pairs[0]
		merges = append(merges, best)
		for i := range words {
			words[i] = joined(words[i], best)
		}
	}
	return merges
}

// joined merges a pair wherever it is in the word, from the left.
func joined(word []string, p [2]string) (out []string) {
	for i := 0; i < len(word); i++ {
		if i+1 < len(word) && word[i] == p[0] && word[i+1] == p[1] {
			out = append(out, p[0]+p[1])
			i++
			continue
		}
		out = append(out, word[i])
	}
	return out
}

// vocabulary numbers the bytes, in an order of its own, the results of merges, and further tokens.
func vocabulary(merges [][2]string, more ...string) object {
	v := object{}
	for b := range 256 {
		v[letterOf((b+77)%256)] = b
	}
	add := func(raw string) {
		if w := written(raw); v[w] == nil {
			v[w] = len(v)
		}
	}
	for _, m := range merges {
		add(m[0] + m[1])
	}
	for _, m := range more {
		add(m)
	}
	return v
}

// special is an added token of most files.
func special(id int, content string) object {
	return object{"id": id, "content": content, "special": true, "lstrip": false, "rstrip": false, "single_word": false, "normalized": false}
}

// with changes fields.
func with(o object, changes object) object {
	for k, v := range changes {
		o[k] = v
	}
	return o
}

// split is the pre-tokenizer of files since Llama 3.
func split(regex string) object {
	return object{"type": "Sequence", "pretokenizers": []any{
		object{"type": "Split", "pattern": object{"Regex": regex}, "behavior": "Isolated", "invert": false},
		byteLevel(false, false),
	}}
}

func byteLevel(prefixSpace, useRegex bool) object {
	return object{"type": "ByteLevel", "add_prefix_space": prefixSpace, "trim_offsets": true, "use_regex": useRegex}
}

func mergesAsTexts(merges [][2]string) (out []any) {
	for _, m := range merges {
		out = append(out, written(m[0])+" "+written(m[1]))
	}
	return out
}

func mergesAsPairs(merges [][2]string) (out []any) {
	for _, m := range merges {
		out = append(out, []any{written(m[0]), written(m[1])})
	}
	return out
}

// numbered gives added tokens the ids that the reference does: their own if the vocabulary has them, else those behind it.
func numbered(vocab object, tokens ...object) (out []any) {
	next := len(vocab)
	for _, a := range tokens {
		a["id"] = next
		if id, ok := vocab[a["content"].(string)]; ok {
			a["id"] = id
		} else {
			next++
		}
		out = append(out, a)
	}
	return out
}

func specials(vocab object) []any {
	var all []object
	for _, s := range []string{"<|begin_of_text|>", "<|eot_id|>", "<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<|im_end|>\n", "<"} {
		all = append(all, special(0, s))
	}
	return numbered(vocab, all...)
}

// The made-up files. Words that only the vocabulary has tell ignore_merges.
func llamaLike() object {
	vocab := vocabulary(learnt, "Hello", " world", "HTTPServer", "123", "naïvely")
	added := specials(vocab)
	begin := added[0].(object)
	return object{"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": added, "normalizer": nil,
		"pre_tokenizer": split(llamaRegex),
		"post_processor": object{"type": "Sequence", "processors": []any{byteLevel(true, true), object{"type": "TemplateProcessing",
			"single":         []any{object{"SpecialToken": object{"id": "<|begin_of_text|>", "type_id": 0}}, object{"Sequence": object{"id": "A", "type_id": 0}}},
			"pair":           []any{},
			"special_tokens": object{"<|begin_of_text|>": object{"id": "<|begin_of_text|>", "ids": []any{begin["id"]}, "tokens": []any{"<|begin_of_text|>"}}}}}},
		"decoder": byteLevel(true, true),
		"model":   object{"type": "BPE", "dropout": nil, "unk_token": nil, "byte_fallback": false, "ignore_merges": true, "vocab": vocab, "merges": mergesAsTexts(learnt)},
	}
}

func qwenLike() object {
	vocab := vocabulary(learnt, "Hello", " world")
	return object{"added_tokens": specials(vocab), "normalizer": object{"type": "NFC"}, "pre_tokenizer": split(qwenRegex),
		"post_processor": byteLevel(false, false), "decoder": byteLevel(false, false),
		"model": object{"type": "BPE", "continuing_subword_prefix": "", "end_of_word_suffix": "", "vocab": vocab, "merges": mergesAsPairs(learnt)},
	}
}

// gptLike has ByteLevel's own pattern behind Digits, and added tokens of every kind.
func gptLike() object {
	vocab := vocabulary(learnt)
	return object{"normalizer": object{"type": "Sequence", "normalizers": []any{object{"type": "NFC"}}},
		"added_tokens": numbered(vocab,
			special(0, "<|endoftext|>"),
			with(special(0, "<|im_start|>"), object{"rstrip": true}),
			with(special(0, "<|im_end|>"), object{"lstrip": true}),
			with(special(0, "the"), object{"single_word": true}),
			with(special(0, "E\u0301cole"), object{"normalized": true}),
			with(special(0, "Hello"), object{"normalized": true, "lstrip": true, "rstrip": true}),
			with(special(0, "3.14"), object{"normalized": true, "single_word": true}),
		),
		"pre_tokenizer":  object{"type": "Sequence", "pretokenizers": []any{object{"type": "Digits", "individual_digits": true}, byteLevel(false, true)}},
		"post_processor": nil, "decoder": byteLevel(false, true),
		"model": object{"type": "BPE", "vocab": vocab, "merges": mergesAsTexts(learnt)},
	}
}

// robertaLike gives texts a space before them.
func robertaLike() object {
	f := gptLike()
	f["pre_tokenizer"] = byteLevel(true, true)
	f["normalizer"] = nil
	return f
}

// deepseekLike splits by three expressions, of which none cuts all text.
func deepseekLike() object {
	f := llamaLike()
	isolate := func(name string) object {
		return object{"type": "Split", "pattern": object{"Regex": bpe.Regexes[name]}, "behavior": "Isolated", "invert": false}
	}
	f["pre_tokenizer"] = object{"type": "Sequence", "pretokenizers": []any{isolate("deepseek-digits"), isolate("deepseek-han"), isolate("deepseek"), byteLevel(false, false)}}
	return f
}

var madeUp = map[string]func() object{"deepseek": deepseekLike, "llama": llamaLike, "qwen": qwenLike, "gpt": gptLike, "roberta": robertaLike}

func text(t testing.TB, file object) []byte {
	t.Helper()
	b, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func load(t testing.TB, file object, o bpe.Options) *bpe.Tokenizer {
	t.Helper()
	tok, err := bpe.Load(bytes.NewReader(text(t, file)), o)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// uncached is a tokenizer that remembers nothing.
var uncached = bpe.Options{WordCacheBytes: -1, MessageCacheBytes: -1}

func encode(t testing.TB, tok *bpe.Tokenizer, s string, f bpe.Frame) []uint32 {
	t.Helper()
	ids, err := tok.Encode(nil, s, f)
	if err != nil {
		t.Fatalf("%.100q: %v", s, err)
	}
	return ids
}

// words shows ids as the texts they stand for.
func words(t testing.TB, tok *bpe.Tokenizer, ids []uint32) string {
	t.Helper()
	var out []string
	for _, id := range ids {
		b, err := tok.Decode(nil, []uint32{id})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%q", b))
	}
	return strings.Join(out, " ")
}
