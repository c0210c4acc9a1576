package chain

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routerfleet/routerfleet/router/tokens/chat"
)

// slow reads a long text once it may, others at once.
type slow struct {
	own
	may chan struct{}
}

func (s slow) Text(dst []uint32, text string, _ bool) ([]uint32, error) {
	if len(text) >= longPrompt {
		<-s.may
	}
	return append(dst, 1), nil
}

func TestLongPromptsTakeHalfTheProcessorsAndNoOtherWaitsForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slow{may: make(chan struct{})}
		ways := &Chain{Models: func(string) OwnWay { return s }, Asker: asker{}}
		long := Request{Text: strings.Repeat("x", longPrompt)}
		var group sync.WaitGroup
		for range max(1, runtime.GOMAXPROCS(0)/2) {
			group.Go(func() {
				if _, path, why := ways.Tokens(t.Context(), nil, long); path != Own {
					t.Errorf("one of the first: %s, %d", path, why)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		if ids, path, why := ways.Tokens(t.Context(), nil, long); path != None || why != Busy || len(ids) != 0 || time.Since(began) != longWait {
			t.Errorf("one more: %v by %s, %d, after %s", ids, path, why, time.Since(began))
		}
		gone, leave := context.WithCancel(t.Context())
		leave()
		began = time.Now()
		if _, _, why := ways.Tokens(gone, nil, long); why != Busy || time.Since(began) != 0 {
			t.Errorf("one whose client left: %d after %s", why, time.Since(began))
		}
		if _, path, _ := ways.Tokens(t.Context(), nil, Request{Text: long.Text[1:]}); path != Own {
			t.Errorf("a shorter one: %s", path)
		}
		close(s.may)
		group.Wait()
		if _, path, _ := ways.Tokens(t.Context(), nil, long); path != Own {
			t.Errorf("when they are through: %s", path)
		}
	})
}

// A place is given back by a prompt that fails, however it does.
func TestAPromptThatFailsGivesItsPlaceBack(t *testing.T) {
	body := []byte(strings.Repeat("x", longPrompt))
	g := &gate{}
	for range 2 * runtime.GOMAXPROCS(0) {
		func() {
			defer func() { _ = recover() }()
			_ = g.pass(t.Context(), len(body), func() error { panic("a bug") })
		}()
		if err := g.pass(t.Context(), len(body), func() error { return chat.ErrInvalid }); !errors.Is(err, chat.ErrInvalid) {
			t.Fatal(err)
		}
	}
}

func TestNoBodyIsTooLargeForTheRouterToServeItUnread(t *testing.T) {
	read := false
	g := &gate{}
	if err := g.pass(t.Context(), maxPromptBytes+1, func() error { read = true; return nil }); read || reason(err) != TooLong {
		t.Errorf("read %v, %v", read, err)
	}
	if err := g.pass(t.Context(), maxPromptBytes, func() error { read = true; return nil }); !read || err != nil {
		t.Errorf("at the limit: read %v, %v", read, err)
	}
}
