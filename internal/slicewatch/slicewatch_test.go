package slicewatch_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/routerfleet/routerfleet/internal/slicewatch"
	"github.com/routerfleet/routerfleet/internal/slicewatch/slicewatchtest"
)

func TestMain(m *testing.M) {
	// client-go's global back-off of error reports compares the clocks of different bubbles.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	goleak.VerifyTestMain(m)
}

func slice(name, app string) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", Labels: map[string]string{"app": app}}}
}

func TestTheSetIsACompleteListAndTheChangesSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := slicewatchtest.New()
		api.Put(slice("a", "router"))
		api.Put(slice("other", "engine"))
		w, err := slicewatch.New(slicewatch.Options{Name: "peers", Client: api.Client(), Namespace: "ns", Selector: "app=router"})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx) }()
		defer func() { cancel(); api.Cut(); <-done }()
		expect := func(when string, want int, trouble bool) {
			t.Helper()
			time.Sleep(15 * time.Second) // the longest wait between two attempts
			synctest.Wait()
			list, synced := w.Slices()
			if len(list) != want || !synced || (w.Trouble() != nil) != trouble {
				t.Fatalf("%s: got %d slices, synced %v, trouble %v", when, len(list), synced, w.Trouble())
			}
		}
		expect("at first", 1, false)
		api.Put(slice("b", "router"))
		expect("one more", 2, false)
		api.Drop("a")
		expect("one less", 1, false)
		api.Deny(true)
		api.Cut()
		api.Drop("b")
		expect("while it is refused", 1, true)
		api.Deny(false)
		expect("afterwards", 0, false)
	})
}

// bare is a watch without a reflector.
func bare(t *testing.T, o slicewatch.Options) *slicewatch.Watch {
	t.Helper()
	o.Name, o.Client, o.Namespace, o.Selector = "peers", slicewatchtest.New().Client(), "ns", "app=router"
	w, err := slicewatch.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// Today's reflector never adds before it has replaced; the promise must not hang on that.
func TestSlicesBeforeTheFirstCompleteListWakeNobody(t *testing.T) {
	lists := 0
	w := bare(t, slicewatch.Options{Listed: func() { lists++ }})
	signalled := func() bool {
		select {
		case <-w.Changed():
			return true
		default:
			return false
		}
	}
	if err := w.Add(slice("s1", "router")); err != nil || signalled() || lists != 0 {
		t.Fatalf("a slice alone woke the reader, was taken for a list (%d), or %v", lists, err)
	}
	if err := w.Replace([]any{slice("s2", "router")}, "1"); err != nil || !signalled() || lists != 1 {
		t.Fatalf("the complete list did not, is one of %d, or %v", lists, err)
	}
	if list, synced := w.Slices(); len(list) != 1 || list[0].Name != "s2" || !synced {
		t.Fatalf("got %v, synced %v", list, synced)
	}
	if err := w.Delete(slice("s2", "router")); err != nil || !signalled() {
		t.Fatalf("a change after it did not, or %v", err)
	}
}

func TestAnObjectOfAnotherKindIsAnErrorAndNoPanic(t *testing.T) {
	w := bare(t, slicewatch.Options{})
	for name, f := range map[string]func(any) error{
		"add": w.Add, "update": w.Update, "delete": w.Delete, "replace": func(o any) error { return w.Replace([]any{o}, "1") },
	} {
		if err := f("a string"); err == nil {
			t.Errorf("%s took a string", name)
		}
	}
}

func TestEveryRequestIsNotedAndNewsIsWhatDiffersFromTheLastOfItsVerb(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := slicewatchtest.New()
		api.Deny(true)
		noted, news := 0, []string(nil)
		w, err := slicewatch.New(slicewatch.Options{
			Name: "peers", Client: api.Client(), Namespace: "ns", Selector: "app=router",
			Noted: func(verb string, err error, isNews bool) {
				noted++
				if isNews {
					news = append(news, fmt.Sprintf("%s %v", verb, err != nil))
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); w.Run(ctx) }()
		defer func() { cancel(); api.Cut(); <-done }()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := api.Requests(); n < 4 || noted != n {
			t.Errorf("%d of %d requests noted", noted, n)
		}
		slices.Sort(news)
		if !slices.Equal(news, slices.Compact(slices.Clone(news))) || len(news) != len(w.Failing()) || len(news) == 0 {
			t.Errorf("news %v, failing %v", news, w.Failing())
		}
		select {
		case <-w.Changed():
			t.Error("trouble that is noted elsewhere woke the reader")
		default:
		}
		api.Deny(false)
		time.Sleep(15 * time.Second)
		synctest.Wait()
		if err := w.Failing()["watch"]; err != nil || w.Trouble() != nil || !slices.Contains(news, "watch false") {
			t.Errorf("afterwards: news %v, failing %v, trouble %v", news, w.Failing(), w.Trouble())
		}
	})
}
