package proxy

import (
	"fmt"
	"strings"
	"testing"
)

func ids(from, step, n int, separator string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprint(from + i*step)
	}
	return "[" + strings.Join(parts, separator) + "]"
}

// Case 11: token-id prompts are keyed by their content, not by their length or spelling.
func TestTokenPromptsAreHashedAsTokens(t *testing.T) {
	up := readPrompt([]byte(ids(1, 1, 64, ",")), nil)
	down := readPrompt([]byte(ids(64, -1, 64, ",")), nil)
	spaced := readPrompt([]byte(ids(1, 1, 64, " ,\n ")), nil)
	if up.key == down.key {
		t.Error("different ids of equal length have equal keys")
	}
	if up != spaced {
		t.Errorf("spacing changes the prompt: %+v and %+v", up, spaced)
	}
	if up.tokens != 64 {
		t.Errorf("got %d tokens, want 64", up.tokens)
	}
	if text := readPrompt([]byte(`"[1,2,3]"`), nil); text.key == readPrompt([]byte(`[1,2,3]`), nil).key {
		t.Error("a text that looks like ids shares their key")
	}
}

func TestLongTokenPromptsAreHashedWhole(t *testing.T) {
	// The hasher works in blocks of 512 ids: a difference before, in and after a block's edge must show.
	base := ids(100000, 1, 2000, ",")
	seen := map[uint64]string{readPrompt([]byte(base), nil).key: "base"}
	for _, at := range []int{0, 511, 512, 513, 1023, 1024, 1999} {
		changed := strings.Replace(base, fmt.Sprint(100000+at), "7", 1)
		key := readPrompt([]byte(changed), nil).key
		if other, dup := seen[key]; dup {
			t.Errorf("a change at id %d has the key of %s", at, other)
		}
		seen[key] = fmt.Sprint("change at ", at)
	}
}

// Case 11: a batch is keyed by its longest member, the first among equals, and sized by all.
func TestABatchIsKeyedByItsLongestMember(t *testing.T) {
	long, short := ids(1, 1, 10, ","), ids(5, 1, 4, ",")
	alone := readPrompt([]byte(long), nil)
	for _, batch := range []string{"[" + long + "," + short + "]", "[" + short + ", " + long + "]"} {
		got := readPrompt([]byte(batch), nil)
		if got.key != alone.key || got.tokens != 14 {
			t.Errorf("%s: got key %x and %d tokens, want %x and 14", batch, got.key, got.tokens, alone.key)
		}
	}
	twins := readPrompt([]byte("["+ids(1, 1, 4, ",")+","+ids(9, 1, 4, ",")+"]"), nil)
	if twins.key != readPrompt([]byte(ids(1, 1, 4, ",")), nil).key {
		t.Error("of two members of one length the first does not give the key")
	}
	if got, want := readPrompt([]byte(`["a","longer"]`), nil).key, readPrompt([]byte(`"longer"`), nil).key; got != want {
		t.Errorf("batch of texts: got key %x, want %x", got, want)
	}
}

func TestWhatIsNoPromptIsHashedAsItIs(t *testing.T) {
	for _, raw := range []string{
		``, `null`, `5`, `true`, `{}`, `[]`, `[[]]`, `[null]`, `[1,"a"]`, `[1,-2]`, `[1,2.5]`, `[1e3]`, `[[1],"a"]`,
		`[99999999999999999999999]`, `[18446744073709551615]`, `[[1],[2,[3]]]`, `[{"role":"user"}]`, `["\ud83d"]`, `"\ud83d"`,
	} {
		first, second := readPrompt([]byte(raw), nil), readPrompt([]byte(raw), nil)
		if first != second {
			t.Errorf("%s: two readings differ: %+v %+v", raw, first, second)
		}
	}
	if readPrompt([]byte(`[1,-2]`), nil).key == readPrompt([]byte(`[1,-3]`), nil).key {
		t.Error("arrays that are no token ids share a key")
	}
}

func TestMessagesAreSizedByTheirTexts(t *testing.T) {
	text := strings.Repeat("abcd", 100)
	plain := readPrompt([]byte(`[{"role":"user","content":"`+text+`"}]`), nil)
	if plain.tokens != 101 { // 400 bytes of content and "user"
		t.Errorf("got %d tokens, want 101", plain.tokens)
	}
	image := `,{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + strings.Repeat("A", 1<<20) + `"}}]}]`
	withImage := readPrompt([]byte(`[{"role":"user","content":"`+text+`"}`+image), nil)
	if withImage.tokens > 120 {
		t.Errorf("an inline image of 1 MiB makes %d tokens", withImage.tokens)
	}
	if withImage.key == plain.key {
		t.Error("different messages have equal keys")
	}
}

// Case 10: characters of every width, and lone surrogates, cannot trip the reader.
func TestPromptsOfAnyCharacterAreReadWithoutPanic(t *testing.T) {
	for _, text := range []string{"×", "Δ", "°", "€", "𝄞", `\ud83d`, `\ude00\ud83d`, "\xff\xfe", strings.Repeat("€", 5000)} {
		body := `{"model":"m","prompt":"` + text + `","stop":["` + text + `"]}`
		c, fault := readCall([]byte(body), []string{"prompt"}, nil)
		if fault != nil {
			t.Errorf("%q: %v", text, fault)
			continue
		}
		if c.prompt.key == 0 || c.prompt.tokens == 0 || string(c.body) != body {
			t.Errorf("%q: got %+v", text, c.prompt)
		}
	}
}

func FuzzPromptsNeverPanic(f *testing.F) {
	for _, sample := range append(jsonSamples, `[1,2]`, `[[1],[2]]`, `["a","b"]`, `[1,"x"]`) {
		f.Add([]byte(sample))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		body := append(append([]byte(`{"prompt":`), raw...), '}')
		if c, fault := readCall(body, []string{"prompt"}, nil); fault == nil && c.prompt.tokens > len(raw) {
			t.Fatalf("%d tokens from %d bytes: %q", c.prompt.tokens, len(raw), raw)
		}
	})
}

func BenchmarkReadCall(b *testing.B) {
	for name, prompt := range map[string]string{
		"prompt=chat1kB":     `"messages":[{"role":"user","content":"` + strings.Repeat("lorem ipsum ", 85) + `"}]`,
		"prompt=12ktokenIDs": `"prompt":` + ids(10000, 7, 12000, ","),
	} {
		body := []byte(`{"model":"m","stream":true,` + prompt + `}`)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, fault := readCall(body, []string{"messages", "prompt"}, nil); fault != nil {
					b.Fatal(fault)
				}
			}
		})
	}
}
