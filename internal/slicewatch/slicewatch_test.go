package slicewatch_test

import (
	"context"
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
