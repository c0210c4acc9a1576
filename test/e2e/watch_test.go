//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/test/e2e/live"
)

// recorder watches something from a moment on and keeps what it was told, with the time it was told.
// It fails the test if the watch breaks: a witness who looked away has seen nothing.
type recorder struct {
	stop func()
	done chan struct{}

	mu      sync.Mutex // guards all below
	changed chan struct{}
	err     error
}

// record hands every event to see until the recorder is stopped. see runs with the recorder locked.
func (s *scope) record(w watch.Interface, r *recorder, see func(watch.Event)) {
	ctx, cancel := context.WithCancel(s.ctx)
	r.done, r.changed = make(chan struct{}), make(chan struct{})
	r.stop = func() { cancel(); <-r.done }
	go func() {
		defer close(r.done)
		defer w.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case event, open := <-w.ResultChan():
				r.mu.Lock()
				if !open || event.Type == watch.Error {
					if ctx.Err() == nil {
						r.err = fmt.Errorf("the watch broke: %v", event.Object)
					}
					close(r.changed)
					r.mu.Unlock()
					return
				}
				see(event)
				close(r.changed)
				r.changed = make(chan struct{})
				r.mu.Unlock()
			}
		}
	}()
	s.Cleanup(r.stop)
}

// --- a rollout, judged by its pods ---

// rollWitness sees every change of the fleet's pods and holds, at each, the promises of a rollout of
// want replicas: never fewer than want of them Ready, never more than one above want alive.
type rollWitness struct {
	recorder
	want     int
	pods     map[string]*corev1.Pod
	story    []string
	breaches []string
	// fewest and most are the extremes seen of Ready and of living pods.
	fewest, most int
}

// witnessRoll starts to look at a fleet of want ready replicas.
func (f *fleet) witnessRoll(want int) *rollWitness {
	f.Helper()
	options := metav1.ListOptions{LabelSelector: f.selector()}
	list, err := f.Client.CoreV1().Pods(f.namespace).List(f.ctx, options)
	if err != nil {
		f.Fatalf("list pods of fleet %s: %v", f.name, err)
	}
	w := &rollWitness{want: want, pods: map[string]*corev1.Pod{}, fewest: len(list.Items)}
	for i := range list.Items {
		w.pods[string(list.Items[i].UID)] = &list.Items[i]
	}
	w.judge(time.Now(), "start")
	options.ResourceVersion = list.ResourceVersion
	events, err := f.Client.CoreV1().Pods(f.namespace).Watch(f.ctx, options)
	if err != nil {
		f.Fatalf("watch pods of fleet %s: %v", f.name, err)
	}
	f.record(events, &w.recorder, func(event watch.Event) { w.see(time.Now(), event) })
	return w
}

func (w *rollWitness) see(now time.Time, event watch.Event) {
	pod, isPod := event.Object.(*corev1.Pod)
	if !isPod {
		return
	}
	if event.Type == watch.Deleted {
		delete(w.pods, string(pod.UID))
	} else {
		w.pods[string(pod.UID)] = pod
	}
	w.judge(now, fmt.Sprintf("%s %s", event.Type, pod.Name))
}

func (w *rollWitness) judge(now time.Time, why string) {
	ready, alive := 0, 0
	for _, pod := range w.pods {
		if pod.DeletionTimestamp == nil {
			alive++
		}
		if live.PodReady(pod) {
			ready++
		}
	}
	w.fewest, w.most = min(w.fewest, ready), max(w.most, alive)
	line := fmt.Sprintf("%s %-60s ready %d alive %d of %d", now.Format("15:04:05.000"), why, ready, alive, len(w.pods))
	w.story = append(w.story, line)
	if ready < w.want || alive > w.want+1 {
		w.breaches = append(w.breaches, line)
	}
}

// verdict ends the watch and fails the test if a promise was broken at any moment.
func (w *rollWitness) verdict(f *fleet) {
	f.Helper()
	w.stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		f.Fatalf("watch the rollout of fleet %s: %v", f.name, w.err)
	}
	f.Logf("fleet %s: %d pod changes seen, ready never below %d, alive never above %d", f.name, len(w.story), w.fewest, w.most)
	if len(w.breaches) > 0 {
		f.Errorf("fleet %s: fewer than %d ready or more than %d alive at:\n%s\nthe whole story:\n%s",
			f.name, w.want, w.want+1, strings.Join(w.breaches, "\n"), strings.Join(w.story, "\n"))
	}
}

// --- EndpointSlices, as routers are told of them ---

// sliceWitness knows which pods the slices of the engine Service list as ready, and since when.
type sliceWitness struct {
	recorder
	slices map[string]*discoveryv1.EndpointSlice
	ready  string
	since  time.Time
}

// witnessSlices starts to look at the slices of the engine Service.
func (e *engines) witnessSlices() *sliceWitness {
	e.Helper()
	options := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + engineService}
	slices := e.Client.DiscoveryV1().EndpointSlices(e.namespace)
	list, err := slices.List(e.ctx, options)
	if err != nil {
		e.Fatalf("list the slices of service %s: %v", engineService, err)
	}
	w := &sliceWitness{slices: map[string]*discoveryv1.EndpointSlice{}}
	for i := range list.Items {
		w.slices[list.Items[i].Name] = &list.Items[i]
	}
	w.ready, w.since = w.readyPods(), time.Now()
	options.ResourceVersion = list.ResourceVersion
	events, err := slices.Watch(e.ctx, options)
	if err != nil {
		e.Fatalf("watch the slices of service %s: %v", engineService, err)
	}
	e.record(events, &w.recorder, w.see)
	return w
}

func (w *sliceWitness) see(event watch.Event) {
	slice, isSlice := event.Object.(*discoveryv1.EndpointSlice)
	if !isSlice {
		return
	}
	if event.Type == watch.Deleted {
		delete(w.slices, slice.Name)
	} else {
		w.slices[slice.Name] = slice
	}
	if ready := w.readyPods(); ready != w.ready {
		w.ready, w.since = ready, time.Now()
	}
}

// readyPods are the names of pods with a ready endpoint, sorted and joined. Nil means ready.
func (w *sliceWitness) readyPods() string {
	var names []string
	for _, slice := range w.slices {
		for _, endpoint := range slice.Endpoints {
			if (endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready) && endpoint.TargetRef != nil {
				names = append(names, endpoint.TargetRef.Name)
			}
		}
	}
	sort.Strings(names)
	return strings.Join(names, " ")
}

// await waits until exactly these pods are listed as ready and returns the moment the watch said so.
func (w *sliceWitness) await(s *scope, names ...string) time.Time {
	s.Helper()
	sort.Strings(names)
	want := strings.Join(names, " ")
	timeout := time.NewTimer(settleTimeout)
	defer timeout.Stop()
	for {
		w.mu.Lock()
		ready, since, err, changed := w.ready, w.since, w.err, w.changed
		w.mu.Unlock()
		if err != nil {
			s.Fatalf("watch the slices of service %s: %v", engineService, err)
		}
		if ready == want {
			return since
		}
		select {
		case <-changed:
		case <-timeout.C:
			s.Fatalf("service %s lists [%s] as ready, want [%s]", engineService, ready, want)
		}
	}
}

// slotsOf counts the slots that the ReplicaSets of living pods occupy, for failures' texts.
func slotsOf(pods []corev1.Pod) map[string]int {
	slots := map[string]int{}
	for _, pod := range pods {
		slots[pod.Labels[v1alpha1.LabelSlot]]++
	}
	return slots
}
