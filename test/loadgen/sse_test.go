package loadgen

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"
)

func readEvents(t interface{ Fatalf(string, ...any) }, r io.Reader) []string {
	events, all := newEventReader(r), []string(nil)
	for {
		data, err := events.next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("after %d events: %v", len(all), err)
		}
		all = append(all, string(data))
	}
}

// chunks hands out text in pieces of the given sizes, over and over.
type chunks struct {
	text  string
	sizes []int
}

func (c *chunks) Read(p []byte) (int, error) {
	if c.text == "" {
		return 0, io.EOF
	}
	n := copy(p, c.text[:min(len(c.text), c.sizes[0])])
	c.text, c.sizes = c.text[n:], append(c.sizes[1:], c.sizes[0])
	return n, nil
}

func TestEventsAreTheSameHoweverTheStreamIsCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOf(rapid.StringMatching(`[a-z{}:" é]{1,12}`)).Draw(t, "events")
		eol := rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(t, "line end")
		comment := rapid.SampledFrom([]string{"", ": ping" + eol, ": ping" + eol + eol, "event: x" + eol}).Draw(t, "noise")
		var text strings.Builder
		for _, e := range want {
			text.WriteString(comment + "data: " + e + eol + eol)
		}
		sizes := rapid.SliceOfN(rapid.IntRange(1, 9), 1, 5).Draw(t, "sizes")
		if got := readEvents(t, &chunks{text.String(), sizes}); !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

func TestAnEventIsGivenOutBeforeTheNextByteComes(t *testing.T) {
	for _, eol := range []string{"\n", "\r\n", "\r"} {
		r, w := io.Pipe()
		go func() { _, _ = io.WriteString(w, "data: a"+eol+eol) }()
		if data, err := newEventReader(r).next(); err != nil || string(data) != "a" {
			t.Errorf("line end %q: got %q, %v", eol, data, err)
		}
		_ = r.Close()
	}
}

func TestAnUnfinishedEventIsNotGivenOut(t *testing.T) {
	for _, text := range []string{"data: a", "data: a\n", "data: a\r\n"} {
		if got := readEvents(t, strings.NewReader(text)); len(got) != 0 {
			t.Errorf("%q gave %q", text, got)
		}
	}
}

func TestDataLinesOfOneEventAreJoined(t *testing.T) {
	got := readEvents(t, iotest.OneByteReader(strings.NewReader("data: a\ndata:b\nid: 7\n\n")))
	if !slices.Equal(got, []string{"a\nb"}) {
		t.Errorf("got %q", got)
	}
}

func TestALinePastTheLimitIsAnError(t *testing.T) {
	_, err := newEventReader(strings.NewReader("data: " + strings.Repeat("x", maxLineBytes) + "\n\n")).next()
	if err == nil || errors.Is(err, io.EOF) {
		t.Errorf("got %v, want an error", err)
	}
}
