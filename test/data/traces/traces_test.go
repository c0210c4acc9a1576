package traces

import (
	"bytes"
	"compress/gzip"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func pack(t testing.TB, text string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestTheShippedTraceDecodesWhole(t *testing.T) {
	requests, err := Conversation()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(requests), 5719; got != want {
		t.Fatalf("requests: got %d, want %d", got, want)
	}
	tokens, blocks := 0, map[uint32]bool{}
	for _, r := range requests {
		tokens += r.InputLength
		for _, id := range r.Blocks {
			blocks[id] = true
		}
	}
	if tokens != 73_604_194 || len(blocks) != 96_534 {
		t.Errorf("got %d tokens in %d distinct blocks, want 73604194 in 96534", tokens, len(blocks))
	}
	if got, want := requests[5718].At, 1797*time.Second; got != want {
		t.Errorf("last request at %v, want %v", got, want)
	}
}

func TestBlocksAreFixedForGood(t *testing.T) {
	block := AppendBlock(nil, 7)
	if len(block) != BlockSize {
		t.Fatalf("a block has %d tokens, want %d", len(block), BlockSize)
	}
	if got, want := block[:4], []uint32{20118, 24726, 21384, 21895}; !slices.Equal(got, want) {
		t.Errorf("block 7 begins %v, want %v", got, want)
	}
	for _, token := range block {
		if token < firstToken || token >= firstToken+tokenRange {
			t.Fatalf("token %d is outside the promised range", token)
		}
	}
}

func TestDistinctBlocksDiffer(t *testing.T) {
	seen := map[[4]uint32]uint32{}
	for id := range uint32(2_000) {
		head := [4]uint32(AppendBlock(nil, id)[:4])
		if other, dup := seen[head]; dup {
			t.Fatalf("blocks %d and %d begin alike", other, id)
		}
		seen[head] = id
	}
}

func TestEqualBlocksMakeEqualPrefixes(t *testing.T) {
	a := Request{InputLength: 1300, Blocks: []uint32{0, 5, 6}}.Prompt()
	b := Request{InputLength: 1024, Blocks: []uint32{0, 5}}.Prompt()
	if len(a) != 1300 || len(b) != 1024 {
		t.Fatalf("prompts of %d and %d tokens, want 1300 and 1024", len(a), len(b))
	}
	if !slices.Equal(a[:1024], b) {
		t.Error("the shared blocks differ")
	}
}

func TestDecodeRefusesWhatItCannotTrust(t *testing.T) {
	const good = `{"timestamp": 0, "input_length": 513, "output_length": 1, "hash_ids": [0, 1]}`
	for name, c := range map[string]struct{ text, want string }{
		"not JSON":               {"{", "line 1: not a trace request"},
		"too few blocks":         {strings.Replace(good, "[0, 1]", "[0]", 1), "want 2 blocks"},
		"too many blocks":        {strings.Replace(good, "[0, 1]", "[0, 1, 2]", 1), "want 2 blocks"},
		"negative id":            {strings.Replace(good, "[0, 1]", "[0, -1]", 1), "negative"},
		"id past 31 bits":        {strings.Replace(good, "[0, 1]", "[0, 2147483648]", 1), "hash id: 2147483648"},
		"empty prompt":           {strings.Replace(good, "513", "0", 1), "want >= 0, >= 1"},
		"time goes back":         {strings.Replace(good, ": 0,", ": 9,", 1) + "\n" + good, "line 2: timestamp 0s is before"},
		"prompt past the limit":  {strings.Replace(good, "513", "1048577", 1), "input_length: 1048577"},
		"output past the limit":  {strings.Replace(good, `"output_length": 1`, `"output_length": 1048577`, 1), "output_length: 1048577"},
		"line past the limit":    {"\n" + strings.Repeat(" ", MaxLineBytes) + good, "token too long"},
		"a fraction for a count": {strings.Replace(good, "513", "513.5", 1), "not a trace request"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Decode(bytes.NewReader(pack(t, c.text)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
	if got, err := Decode(bytes.NewReader(pack(t, good+"\n\n"))); err != nil || len(got) != 1 {
		t.Errorf("the good line: got %d requests, error %v", len(got), err)
	}
	if _, err := Decode(strings.NewReader(good)); err == nil {
		t.Error("plain text was taken for gzip")
	}
}

// A small file may unpack to anything: the limit is on what comes out.
func TestDecodeStopsAtTheUnpackedLimit(t *testing.T) {
	const line = "                                \n"
	for lines, want := range map[int]bool{100: true, 101: false} {
		_, err := decode(bytes.NewReader(pack(t, strings.Repeat(line, lines))), int64(100*len(line)))
		var tooMuch *LimitError
		if refused := errors.As(err, &tooMuch) && tooMuch.What == "unpacked bytes"; refused == want || (want && err != nil) {
			t.Errorf("%d lines under a limit of 100: %v", lines, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(pack(f, `{"timestamp": 0, "input_length": 513, "output_length": 1, "hash_ids": [0, 1]}`))
	f.Add(pack(f, "{}\n[]\n"))
	f.Add([]byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, data []byte) {
		requests, err := Decode(bytes.NewReader(data))
		if err != nil {
			return
		}
		for i, r := range requests {
			if got := len(r.Prompt()); got != r.InputLength {
				t.Fatalf("request %d: prompt of %d tokens, want %d", i, got, r.InputLength)
			}
		}
	})
}
