package bpe_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/text/unicode/norm"

	"github.com/routerfleet/routerfleet/router/tokens/bpe"
)

// Ids that were worked out by hand from a file one can read.
func TestEncodeGivesTheIdsOfTheBook(t *testing.T) {
	merges := [][2]string{{"l", "o"}, {"lo", "w"}, {"e", "r"}, {" ", "lo"}, {" lo", "w"}, {"1", "2"}}
	vocab := vocabulary(merges) // 256 lo, 257 low, 258 er, 259 _lo, 260 _low, 261 12
	vocab[written("lower")] = 262
	file := func(regex string, ignore bool) object {
		return object{"pre_tokenizer": split(regex), "added_tokens": []any{special(263, "<eot>")},
			"model": object{"type": "BPE", "ignore_merges": ignore, "vocab": vocab, "merges": mergesAsTexts(merges)}}
	}
	id := func(c byte) uint32 { return uint32(c - 77) }
	for _, c := range []struct {
		regex  string
		ignore bool
		text   string
		want   []uint32
	}{
		// The vocabulary has lower, and no merge leads to it: ignore_merges takes it all the same.
		{llamaRegex, false, "lower", []uint32{257, 258}},
		{llamaRegex, true, "lower", []uint32{262}},
		// l o has the lowest rank, then lo w; a space and low do not merge.
		{llamaRegex, true, " lower", []uint32{id(' '), 257, 258}},
		{llamaRegex, false, "low<eot>low", []uint32{257, 263, 257}},
		// Three digits are a word, one is, or all of them are.
		{llamaRegex, false, "1212", []uint32{261, id('1'), id('2')}},
		{qwenRegex, false, "12", []uint32{id('1'), id('2')}},
		{gptRegex, false, "1212", []uint32{261, 261}},
		{llamaRegex, false, "low\n\n low", []uint32{257, id('\n'), id('\n'), id(' '), 257}},
	} {
		if got := encode(t, load(t, file(c.regex, c.ignore), uncached), c.text, bpe.Bare); !slices.Equal(got, c.want) {
			t.Errorf("%q by %.12s, ignore_merges %v: got %v, want %v", c.text, c.regex, c.ignore, got, c.want)
		}
	}
}

func TestEncodeEqualsItsTwinColdAndWarm(t *testing.T) {
	for name, make := range madeUp {
		t.Run(name, func(t *testing.T) {
			plain, small, cached := load(t, make(), uncached), load(t, make(), bpe.Options{WordCacheBytes: 1 << 12, MessageCacheBytes: 1 << 14}), load(t, make(), bpe.Options{})
			w := newTwin(make(), learnt)
			r := rand.New(rand.NewPCG(3, 4))
			for i := range 60 {
				d := document(r)
				if i%10 == 0 {
					d = strings.Repeat(d, 5)
				}
				want := w.encode(d)
				for _, tok := range []*bpe.Tokenizer{plain, small, small, cached, cached} {
					if got := encode(t, tok, d, bpe.Bare); !slices.Equal(got, want) {
						t.Fatalf("document %d %q:\ngot  %s\nwant %s", i, d, words(t, plain, got), words(t, plain, want))
					}
				}
			}
			if s := cached.Stats(); s.WordHits == 0 || s.WordMisses == 0 || s.MessageHits == 0 || s.MessageMisses == 0 {
				t.Errorf("the caches had no part in it: %+v", s)
			}
		})
	}
}

func TestLongWordsEqualTheTwin(t *testing.T) {
	tok, w := load(t, qwenLike(), bpe.Options{}), newTwin(qwenLike(), learnt)
	for _, d := range longDocuments()[:9] {
		d = d[:min(len(d), 3000)]
		d = strings.ToValidUTF8(d, "")
		if got, want := encode(t, tok, d, bpe.Bare), w.encode(d); !slices.Equal(got, want) {
			t.Errorf("%.20q of %d bytes: got %d ids, want %d", d, len(d), len(got), len(want))
		}
	}
}

func TestDecodeGivesTheNormalizedTextBack(t *testing.T) {
	llama, qwen := load(t, llamaLike(), bpe.Options{}), load(t, qwenLike(), bpe.Options{})
	r := rand.New(rand.NewPCG(5, 6))
	for range 200 {
		d := document(r)
		if got, err := llama.Decode(nil, encode(t, llama, d, bpe.Bare)); err != nil || string(got) != d {
			t.Fatalf("%q became %q (%v)", d, got, err)
		}
		if got, err := qwen.Decode(nil, encode(t, qwen, d, bpe.Bare)); err != nil || norm.NFC.String(d) != string(got) {
			t.Fatalf("%q became %q (%v)", d, got, err)
		}
	}
	if got, err := qwen.Decode([]byte("x"), []uint32{1 << 19}); err == nil || string(got) != "x" {
		t.Errorf("an unknown id gave %q and %v", got, err)
	}
}

func TestTheTokensOfPartsAreThoseOfTheWhole(t *testing.T) {
	for name, make := range madeUp {
		t.Run(name, func(t *testing.T) {
			tok := load(t, make(), bpe.Options{})
			r := rand.New(rand.NewPCG(8, 9))
			most := 0
			for range 100 {
				d := document(r)
				var joined string
				var ids []uint32
				n := 0
				for p := range tok.Parts(d) {
					if p == "" {
						t.Fatalf("%q has an empty part", d)
					}
					joined += p
					ids = append(ids, encode(t, tok, p, bpe.Bare)...)
					n++
				}
				most = max(most, n)
				if want := encode(t, tok, d, bpe.Bare); joined != d || !slices.Equal(ids, want) {
					t.Fatalf("%q in parts:\ngot  %s\nwant %s", d, words(t, tok, ids), words(t, tok, want))
				}
			}
			// Files with a token that looks at its neighbours have one part.
			if single := name == "gpt" || name == "roberta"; single != (most == 1) {
				t.Errorf("up to %d parts", most)
			}
		})
	}
}

func TestPartsStopWhenTheirReaderDoes(t *testing.T) {
	tok := load(t, llamaLike(), bpe.Options{})
	for p := range tok.Parts("a<|eot_id|>b<|eot_id|>c") {
		if p != "a<|eot_id|>" {
			t.Errorf("the first part is %q", p)
		}
		break
	}
}

func TestFramedPutsTheTemplatesTokensAround(t *testing.T) {
	f := llamaLike()
	begin, end := added(f, 0)["id"].(int), added(f, 1)["id"].(int)
	post := f["post_processor"].(object)
	post["processors"] = append(post["processors"].([]any), object{"type": "TemplateProcessing",
		"single":         []any{object{"SpecialToken": object{"id": "<x>"}}, object{"Sequence": object{"id": "A"}}, object{"SpecialToken": object{"id": "<x>"}}},
		"special_tokens": object{"<x>": object{"ids": []any{end, end}}}})
	tok := load(t, f, bpe.Options{})
	bare := encode(t, tok, "Hello world", bpe.Bare)
	want := slices.Concat([]uint32{uint32(end), uint32(end), uint32(begin)}, bare, []uint32{uint32(end), uint32(end)})
	if got := encode(t, tok, "Hello world", bpe.Framed); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := encode(t, tok, "", bpe.Framed); len(got) != 5 {
		t.Errorf("an empty text framed gives %v", got)
	}
	if n, err := tok.Count("Hello world", bpe.Framed); n != len(want) || err != nil {
		t.Errorf("counted %d (%v), want %d", n, err, len(want))
	}
	if plain := load(t, qwenLike(), bpe.Options{}); !slices.Equal(encode(t, plain, "a b", bpe.Framed), encode(t, plain, "a b", bpe.Bare)) {
		t.Error("a file whose post-processor adds nothing adds something")
	}
}

func TestAWordBeyondTheLimitIsAnErrorAndNotAGuess(t *testing.T) {
	tok := load(t, llamaLike(), bpe.Options{})
	dst := []uint32{1, 2, 3}
	got, err := tok.Encode(dst, "before <|eot_id|> "+strings.Repeat("q", bpe.MaxWordBytes+1), bpe.Framed)
	if !errors.Is(err, bpe.ErrTooLong) || !slices.Equal(got, dst) {
		t.Errorf("got %v and %v", got, err)
	}
	if _, err := tok.Count(strings.Repeat("q", bpe.MaxWordBytes+1), bpe.Bare); !errors.Is(err, bpe.ErrTooLong) {
		t.Errorf("counted: %v", err)
	}
	if s := tok.Stats(); s.MessageBytes > 0 {
		t.Errorf("a text that failed is kept: %+v", s)
	}
	if got, err := tok.Encode(nil, strings.Repeat("q", bpe.MaxWordBytes), bpe.Bare); err != nil || len(got) == 0 {
		t.Errorf("at the limit: %d ids and %v", len(got), err)
	}
	if _, err := tok.Encode(nil, strings.Repeat("q ", bpe.MaxTextBytes/2+1), bpe.Bare); !errors.Is(err, bpe.ErrTooLong) {
		t.Errorf("a text beyond its limit: %v", err)
	}
}

// Hostile texts end early: what costs most for its bytes is a row of long words, or a token for each byte or two.
func TestATextOfTooMuchWorkIsAnErrorAndNotAWait(t *testing.T) {
	tok := load(t, llamaLike(), bpe.Options{MessageCacheBytes: -1})
	long := strings.Repeat("q", bpe.MaxWordBytes/2) + " "
	const work = bpe.MaxWordBytes / 2 * 9 // 2^15 bytes are 2^8 short words, which has 9 bits
	fits := bpe.MaxLongWork / work
	dst := []uint32{1, 2, 3}
	if got, err := tok.Encode(dst, strings.Repeat(long, fits), bpe.Bare); err != nil || len(got) < fits {
		t.Errorf("%d long words: %d ids and %v", fits, len(got), err)
	}
	if got, err := tok.Encode(dst, strings.Repeat(long, fits+1), bpe.Bare); !errors.Is(err, bpe.ErrTooLong) || !slices.Equal(got, dst) {
		t.Errorf("%d long words: %d ids and %v", fits+1, len(got), err)
	}
	marks := "a" + strings.Repeat("\u0301\u0316", 24) + "\n"
	qwen := load(t, qwenLike(), bpe.Options{MessageCacheBytes: -1})
	fits = bpe.MaxSlowBytes / len(marks)
	if got, err := qwen.Encode(dst, strings.Repeat(marks, fits), bpe.Bare); err != nil || len(got) < fits {
		t.Errorf("%d rows of marks: %d ids and %v", fits, len(got), err)
	}
	if got, err := qwen.Encode(dst, strings.Repeat(marks, fits+1), bpe.Bare); !errors.Is(err, bpe.ErrTooLong) || !slices.Equal(got, dst) {
		t.Errorf("%d rows of marks: %d ids and %v", fits+1, len(got), err)
	}
	unit := "q<|eot_id|>"
	each := len(encode(t, tok, unit, bpe.Bare))
	if got, err := tok.Encode(dst, strings.Repeat(unit, bpe.MaxTokens/each), bpe.Bare); err != nil || len(got) != len(dst)+bpe.MaxTokens {
		t.Errorf("as many tokens as there may be: %d and %v", len(got), err)
	}
	for _, more := range []string{"q", "<|eot_id|>"} {
		if got, err := tok.Encode(dst, strings.Repeat(unit, bpe.MaxTokens/each)+more, bpe.Bare); !errors.Is(err, bpe.ErrTooLong) || !slices.Equal(got, dst) {
			t.Errorf("with %s: %d ids and %v", more, len(got), err)
		}
	}
}

func TestTextThatIsNotUTF8IsAnError(t *testing.T) {
	tok := load(t, llamaLike(), bpe.Options{})
	for _, s := range []string{"\xff", "a\xc3", "\xed\xa0\x80", "\xc0\x80", "ok <|eot_id|> \xf5\x80\x80\x80"} {
		if got, err := tok.Encode(nil, s, bpe.Bare); !errors.Is(err, bpe.ErrNotUTF8) || got != nil {
			t.Errorf("%q: %v and %v", s, got, err)
		}
	}
}

func TestEncodeAllocatesNothingButItsResult(t *testing.T) {
	chat := strings.Repeat("<|im_start|>user\nWhat is the capital of France, 1234567?\nIt's a test — naïve 漢字 😀.<|im_end|>\n", 50)
	for name, make := range madeUp {
		for _, o := range []bpe.Options{{}, uncached} {
			tok := load(t, make(), o)
			dst := make2(len(chat))
			if n := testing.AllocsPerRun(20, func() { dst, _ = tok.Encode(dst[:0], chat, bpe.Framed) }); n > 0 && name != "roberta" {
				t.Errorf("%s with %+v: %v allocations", name, o, n)
			} else if perText := float64(strings.Count(chat, "<|im_")*2 + 1); n > perText {
				t.Errorf("%s with %+v: %v allocations for %v texts that get a space", name, o, n, perText)
			}
		}
	}
}

func make2(n int) []uint32 { return make([]uint32, 0, n) }

func TestAnyNumberOfGoroutinesMayEncode(t *testing.T) {
	tok := load(t, qwenLike(), bpe.Options{WordCacheBytes: 1 << 13, MessageCacheBytes: 1 << 15})
	r := rand.New(rand.NewPCG(10, 11))
	var documents []string
	var want [][]uint32
	plain := load(t, qwenLike(), uncached)
	for range 30 {
		d := document(r)
		documents = append(documents, d)
		want = append(want, encode(t, plain, d, bpe.Bare))
	}
	var all sync.WaitGroup
	wrong := make(chan string, 8)
	for g := range 8 {
		all.Go(func() {
			for i := range 5 * len(documents) {
				k := (i*7 + g*11) % len(documents)
				if got, err := tok.Encode(nil, documents[k], bpe.Bare); err != nil || !slices.Equal(got, want[k]) {
					wrong <- fmt.Sprintf("document %d: %v", k, err)
					return
				}
			}
		})
	}
	all.Wait()
	close(wrong)
	for w := range wrong {
		t.Error(w)
	}
	if s := tok.Stats(); s.WordBytes > 1<<13 || s.MessageBytes > 1<<15 || s.MessageHits == 0 {
		t.Errorf("%+v", s)
	}
}
