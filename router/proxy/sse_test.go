package proxy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const usageEvent = `data: {"id":"c","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":8}}}`

// streamOf is one stream with every oddity: a byte order mark, comments, fields other than data, data over several
// lines, null usage, and multi-byte text.
func streamOf(end string) string {
	lines := []string{
		"\ufeffdata: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}],\"usage\":null}", "",
		": ping", "",
		"event: message", "id: 7", "data: {\"choices\":[{\"delta\":{\"content\":\"×Δ€𝄞 \\\"usage\\\" \"}}]}", "",
		"data:{\"choices\":", "data: []}", "",
		usageEvent, "",
		"data: [DONE]", "", "",
	}
	return strings.Join(lines, end)
}

func readStream(chunks ...string) (answerReader, []string) {
	var events eventReader
	var a answerReader
	var seen []string
	event := func(data []byte) {
		seen = append(seen, string(data))
		a.event(data)
	}
	for _, c := range chunks {
		events.feed([]byte(c), event)
	}
	events.finish(event)
	return a, seen
}

// Case 9: wherever a stream is split, the same events and the same usage come out, once.
func TestEventsAndUsageAreTheSameAtEverySplit(t *testing.T) {
	want := Usage{Known: true, CachedKnown: true, Prompt: 12, Completion: 3, Cached: 8}
	_, reference := readStream(streamOf("\n"))
	if len(reference) != 5 {
		t.Fatalf("got %d events, want 5: %q", len(reference), reference)
	}
	for name, end := range map[string]string{"LF": "\n", "CRLF": "\r\n", "CR": "\r"} {
		stream := streamOf(end)
		for cut := 0; cut <= len(stream); cut++ {
			a, seen := readStream(stream[:cut], stream[cut:])
			if diff := cmp.Diff(reference, seen); diff != "" {
				t.Fatalf("%s cut at %d: events differ (-whole +cut):\n%s", name, cut, diff)
			}
			if got := a.usage(); got != want || !a.done || a.failed || a.events != 4 {
				t.Fatalf("%s cut at %d: usage %+v done %v failed %v events %d", name, cut, got, a.done, a.failed, a.events)
			}
		}
		if a, seen := readStream(strings.Split(stream, "")...); a.usage() != want || len(seen) != 5 {
			t.Fatalf("%s byte by byte: usage %+v, %d events", name, a.usage(), len(seen))
		}
	}
}

func FuzzASplitStreamReadsLikeAWholeOne(f *testing.F) {
	f.Add(streamOf("\n"), uint16(3), uint16(40))
	f.Add(streamOf("\r\n"), uint16(100), uint16(7))
	f.Add(streamOf("\r"), uint16(1), uint16(1))
	f.Add("data\n\ndata:\n\ndata: a\rdata: b\r\n\n:x\n\n", uint16(5), uint16(2))
	f.Fuzz(func(t *testing.T, stream string, first, second uint16) {
		i := min(int(first), len(stream))
		j := min(i+int(second), len(stream))
		_, whole := readStream(stream)
		_, cut := readStream(stream[:i], stream[i:j], stream[j:])
		if diff := cmp.Diff(whole, cut); diff != "" {
			t.Fatalf("cuts at %d and %d (-whole +cut):\n%s", i, j, diff)
		}
	})
}

func TestTheReaderKnowsWhetherAnotherEventMayFollow(t *testing.T) {
	for stream, want := range map[string]bool{
		"": true, "data: a\n\n": true, "data: a\r\n\r\n": true, "data: a\r\r": true, "data: a\n\n: ping\n\n": true,
		"d": false, "data: a": false, "data: a\n": false, "data: a\r\n\r": true, "data: a\r": false,
	} {
		var r eventReader
		r.feed([]byte(stream), func([]byte) {})
		if got := r.betweenEvents(); got != want {
			t.Errorf("%q: got %v, want %v", stream, got, want)
		}
	}
}

func TestAnEventPastTheLimitIsSkippedAndTheNextOneRead(t *testing.T) {
	huge := strings.Repeat("x", maxEventBytes)
	for name, stream := range map[string]string{
		"one line":   "data: " + huge + "\n\n",
		"many lines": strings.Repeat("data: "+huge[:1000]+"\n", maxEventBytes/1000+2) + "\n",
	} {
		var chunks []string
		for rest := stream; rest != ""; {
			n := min(len(rest), relayBufferBytes)
			chunks = append(chunks, rest[:n])
			rest = rest[n:]
		}
		a, seen := readStream(append(chunks, usageEvent+"\n\n")...)
		if len(seen) != 1 || a.usage().Prompt != 12 {
			t.Errorf("%s: %d events, usage %+v; want the usage event alone", name, len(seen), a.usage())
		}
	}
}

func TestUsageIsReadFromEveryKindOfAnswer(t *testing.T) {
	for _, c := range []struct {
		document string
		want     Usage
	}{
		{`{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}`, Usage{Known: true, Prompt: 5, Completion: 2}},
		{`{"text":"x","meta_info":{"prompt_tokens":5,"completion_tokens":2,"cached_tokens":4}}`, Usage{Known: true, CachedKnown: true, Prompt: 5, Completion: 2, Cached: 4}},
		{`{"usage":{"prompt_tokens":5,"completion_tokens":2000000000}}`, Usage{}}, // sums of such would overflow
		{`{"usage":{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":9223372036854775807}}}`, Usage{}},
		{`{"usage":null}`, Usage{}}, {`{"usage":7}`, Usage{}}, {`{"usage":{"prompt_tokens":-5}}`, Usage{}},
		{`{"choices":[{"usage":{"prompt_tokens":5}}]}`, Usage{}}, {`not json`, Usage{}}, {``, Usage{}},
	} {
		var a answerReader
		a.document([]byte(c.document))
		if got := a.usage(); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.document, got, c.want)
		}
	}
}

func TestAnErrorEventCountsAgainstTheEngineOnlyWithAServerCode(t *testing.T) {
	for event, fault := range map[string]bool{
		`{"error":{"message":"too long","code":400}}`: false, `{"error":{"message":"oom","code":500}}`: true,
		`{"error":{"code":"bad"}}`: false, `{"error":"text"}`: false, `{"error":{"code":"503"}}`: true,
	} {
		var a answerReader
		a.event([]byte(event))
		if !a.failed || a.serverFault != fault {
			t.Errorf("%s: failed %v, server fault %v; want true, %v", event, a.failed, a.serverFault, fault)
		}
	}
	var a answerReader
	a.event([]byte(`{"error":null}`))
	a.event([]byte(`{"choices":[{"text":"\"error\""}]}`))
	if a.failed {
		t.Error("a null error, or the word in a text, was taken for an error")
	}
}

func BenchmarkReadStream(b *testing.B) {
	chunk := []byte(fmt.Sprintf("data: {\"id\":\"chatcmpl-%032d\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"}}]}\n\n", 7))
	b.SetBytes(int64(len(chunk)))
	b.ReportAllocs()
	var r eventReader
	var a answerReader
	for b.Loop() {
		r.feed(chunk, a.event)
	}
}
