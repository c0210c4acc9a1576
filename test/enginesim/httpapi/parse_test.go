package httpapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/routerfleet/routerfleet/test/enginesim/tokenizer"
)

// The hand-made id scanner against encoding/json.
func TestParseIDsAgreesWithEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOf(rapid.OneOf(
			rapid.Map(rapid.Uint32Range(0, tokenizer.VocabSize+2), func(n uint32) string { return fmt.Sprint(n) }),
			rapid.SampledFrom([]string{"-1", "1.5", "1e3", "true", `"7"`, "[1]", "null", "262143", "262144", "4294967296"}),
		)).Draw(t, "items")
		sep := rapid.SampledFrom([]string{",", " , ", ",\n"}).Draw(t, "separator")
		raw := "[" + strings.Join(items, sep) + "]"
		var want []uint32
		err := json.Unmarshal([]byte(raw), &want)
		valid := err == nil && !slices.ContainsFunc(want, func(id uint32) bool { return id >= tokenizer.VocabSize }) && !strings.Contains(raw, "null")
		got, gotErr := parseIDs(json.RawMessage(raw))
		if (gotErr == nil) != valid || (valid && !slices.Equal(got, want)) {
			t.Fatalf("%s: got %v, %v; encoding/json %v, %v", raw, got, gotErr, want, err)
		}
	})
}

func TestAtMostMaxBatchPromptsAreRead(t *testing.T) {
	batch := func(n int) json.RawMessage {
		return json.RawMessage("[" + strings.TrimSuffix(strings.Repeat("[1],", n), ",") + "]")
	}
	if got, err := (reader{}).parsePrompts("prompt", batch(maxBatch)); err != nil || len(got) != maxBatch {
		t.Errorf("%d prompts: got %d, %v", maxBatch, len(got), err)
	}
	if _, err := (reader{}).parsePrompts("prompt", batch(maxBatch+1)); err == nil {
		t.Errorf("%d prompts were taken", maxBatch+1)
	}
}

func TestTheStopThatIsCompleteFirstWins(t *testing.T) {
	for _, c := range []struct {
		stops  []string
		text   string
		tokens int
	}{
		{[]string{"f"}, "abcde", 6},
		{[]string{"bcdefg", "d"}, "abc", 4},
		{[]string{"x"}, "abcdefgh", 8},
		{[]string{"gh"}, "abcdef", 8},
		{nil, "abcdefgh", 8},
	} {
		a := &answer{text: "abcdefgh", output: tokenizer.Encode("abcdefgh"), finish: finishLength}
		a.stopAtFirst(c.stops)
		if a.text != c.text || len(a.output) != c.tokens {
			t.Errorf("stops %q: text %q of %d tokens, want %q of %d", c.stops, a.text, len(a.output), c.text, c.tokens)
		}
	}
}

// No body may panic a parser, and what passes one is within the limits.
func FuzzParsers(f *testing.F) {
	for _, seed := range []string{
		`{"prompt":"x"}`, `{"prompt":[[1,2],[3]],"n":2,"stop":["a"]}`, `{"prompt":[`, `{"text":["a"],"sampling_params":{"n":3}}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]}],"stream":true,"stream_options":{"include_usage":true}}`,
		`{"input_ids":[1,2],"sampling_params":null}`, `{"messages":[{"role":"assistant","tool_calls":[]}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, parse := range []func([]byte) (*job, *apiError){reader{}.parseChat, reader{}.parseCompletion, reader{}.parseGenerate} {
			j, err := parse(body)
			if err != nil {
				continue
			}
			if len(j.prompts) == 0 || len(j.prompts) > maxBatch || j.choices < 1 || j.choices > maxChoices || j.maxTokens < 1 || len(j.stops) > maxStops {
				t.Fatalf("accepted %s as %+v", body, j)
			}
		}
	})
}
