package parity

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/routerfleet/routerfleet/router/tokens/chat"
	"github.com/routerfleet/routerfleet/router/tokens/remote"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// byteEncoder makes a token of each byte, and shift of each token.
type byteEncoder struct{ shift, chatShift uint32 }

func (b byteEncoder) Text(dst []uint32, text string, bare bool) ([]uint32, error) {
	if !bare {
		dst = append(dst, 999)
	}
	for _, c := range []byte(text) {
		dst = append(dst, uint32(c)+b.shift)
	}
	return dst, nil
}

func (b byteEncoder) Chat(dst []uint32, body []byte, _ chat.Dialect, _ time.Time) ([]uint32, error) {
	for _, c := range body {
		dst = append(dst, uint32(c)+b.shift+b.chatShift)
	}
	return dst, nil
}

// engines are answered for by encoders.
type engines struct {
	mu    sync.Mutex
	by    map[string]Encoder // by engine id
	texts bool               // chats are not answered, as by SGLang
	down  bool
	asked int
}

func (e *engines) Fresh(_ context.Context, engine remote.Engine, p remote.Prompt) ([]uint32, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	switch {
	case e.down:
		return nil, errors.New("refused")
	case p.Chat != nil && e.texts:
		return nil, remote.ErrUnsupported
	}
	return encode(e.by[engine.ID], p, engine.Dialect, time.Now())
}

func (e *engines) set(change func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change()
}

func listed(ids ...string) (list []Engine) {
	for _, id := range ids {
		list = append(list, Engine{Engine: remote.Engine{ID: id}, Worker: "ns/" + id, Model: "m"})
	}
	return list
}

// watching runs a watch over engines until the test ends.
func watching(t *testing.T, asker *engines, list func() []Engine) *Watch {
	t.Helper()
	w, err := New(Options{Encoder: func(string) Encoder { return byteEncoder{} }, Engines: list, Asker: asker})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return w
}

func TestAWrongTokenizerIsNamedWithinAMinuteAndHealsWithTheEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asker := &engines{by: map[string]Encoder{"a": byteEncoder{}, "b": byteEncoder{shift: 1}}}
		w := watching(t, asker, func() []Engine { return listed("a", "b") })
		synctest.Wait()
		for kind := range kinds {
			if w.Book().Trusted(Group{"m", chat.VLLM, kind}) {
				t.Errorf("%s is trusted at once", kind)
			}
		}
		problems := w.Book().Problems()
		if len(problems) != int(kinds) || problems[0].Worker != "ns/b" || !strings.Contains(problems[0].Message, "model m") {
			t.Errorf("%+v", problems)
		}
		asker.set(func() { asker.by["b"] = byteEncoder{} })
		time.Sleep(time.Minute)
		synctest.Wait()
		if problems := w.Book().Problems(); len(problems) != 0 || !w.Book().Trusted(Group{"m", chat.VLLM, Chat}) {
			t.Errorf("after the engine was put right: %+v", problems)
		}
		asker.set(func() { asker.by["a"] = byteEncoder{chatShift: 1} })
		time.Sleep(time.Minute)
		synctest.Wait()
		if !w.Book().Trusted(Group{"m", chat.VLLM, Text}) || w.Book().Trusted(Group{"m", chat.VLLM, Chat}) {
			t.Error("a wrong template is a matter of chats, and of them only")
		}
	})
}

func TestAnEngineThatRendersNoChatsIsJudgedByItsCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asker := &engines{texts: true, by: map[string]Encoder{"a": byteEncoder{}}}
		w := watching(t, asker, func() []Engine { return listed("a") })
		synctest.Wait()
		e := listed("a")[0]
		if v := w.Book().Verdict(Subject{Group{"m", chat.VLLM, Chat}, "a"}); v != Unknown {
			t.Errorf("chats are %s", v)
		}
		for range countsToDiffer {
			w.Counted(e, Chat, 10, 11)
		}
		if w.Book().Trusted(Group{"m", chat.VLLM, Chat}) || !w.Book().Trusted(Group{"m", chat.VLLM, Text}) {
			t.Error("counts that differ were not heard")
		}
		w.Told(e, Chat, []uint32{1, 2}, []uint32{1, 2})
		if !w.Book().Trusted(Group{"m", chat.VLLM, Chat}) {
			t.Error("tokens in an answer were not heard")
		}
	})
}

func TestAnEngineThatDoesNotAnswerIsUnknownAndAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asker := &engines{down: true, by: map[string]Encoder{"a": byteEncoder{}}}
		w := watching(t, asker, func() []Engine { return listed("a") })
		synctest.Wait()
		if unknown, equal, differs := w.Book().Counts(); unknown+equal+differs != 0 {
			t.Error("silence was taken for a word")
		}
		asker.set(func() { asker.down = false })
		time.Sleep(DefaultInterval + DefaultInterval/10)
		synctest.Wait()
		if v := w.Book().Verdict(Subject{Group{"m", chat.VLLM, Text}, "a"}); v != Equal {
			t.Errorf("then: %s", v)
		}
	})
}

func TestRequestsAreSampled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asker := &engines{by: map[string]Encoder{"a": byteEncoder{}}}
		w := watching(t, asker, func() []Engine { return listed("a") })
		synctest.Wait()
		e, taken := listed("a")[0], 0
		for range 3 * sampleEvery {
			// What the router made of it is wrong, as it would be after a change of files.
			if w.Sample(e, Text, remote.Prompt{Text: "hello"}, []uint32{1, 2, 3}) {
				taken++
				synctest.Wait()
			}
		}
		if taken != 3 {
			t.Errorf("%d of %d requests were taken", taken, 3*sampleEvery)
		}
		if w.Book().Trusted(Group{"m", chat.VLLM, Text}) {
			t.Error("the difference was not heard")
		}
		if w.Sample(e, Text, remote.Prompt{Text: strings.Repeat("x", maxSample+1)}, nil) {
			t.Error("a prompt beyond the limit was taken")
		}
	})
}

func TestModelsWithoutAnEncoderAreNotAskedAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asker := &engines{by: map[string]Encoder{"a": byteEncoder{}}}
		w, err := New(Options{Encoder: func(string) Encoder { return nil }, Engines: func() []Engine { return listed("a") }, Asker: asker})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := w.Run(ctx); err != nil || asker.asked != 0 {
			t.Errorf("asked %d times, %v", asker.asked, err)
		}
	})
}

// Probes must be such that a tokenizer or template that differs shows it.
func TestProbesCoverEachKind(t *testing.T) {
	var seen []Kind
	for _, p := range probes {
		seen = append(seen, p.kind)
	}
	for kind := range kinds {
		if !slices.Contains(seen, kind) {
			t.Errorf("no probe of kind %s", kind)
		}
	}
}
