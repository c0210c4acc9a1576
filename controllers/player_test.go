//go:build envtest

package controllers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/children"
	"github.com/routerfleet/routerfleet/internal/signed"
	"github.com/routerfleet/routerfleet/router/bootstrap/status"
)

// player is ReplicaSet controller, scheduler, kubelet and routers of one namespace. Every 50 ms it makes the pods what
// their ReplicaSets ask for. An image with "bad" in it cannot be pulled, one with "hang" never becomes Ready.
type player struct {
	api client.Client
	ns  string
	net *network

	mu          sync.Mutex
	fewestReady int // since mark, of pods of live sets
	mostLive    int
	mostBad     int // pods that exist and are not Ready at once
	hold        bool
}

func startPlayer(t *testing.T, api client.Client, ns string) *player {
	p := &player{api: api, ns: ns, net: &network{routers: map[string]*fakeRouter{}}}
	p.mark()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := p.step(ctx); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
					t.Errorf("player: %v", err)
				}
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return p
}

// mark starts the extremes anew.
func (p *player) mark() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fewestReady, p.mostLive, p.mostBad = 1<<20, 0, 0
}

func (p *player) extremes() (fewestReady, mostLive, mostBad int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fewestReady, p.mostLive, p.mostBad
}

// pause stops the player's world, as if controller manager and kubelets were down.
func (p *player) pause(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = yes
}

func (p *player) step(ctx context.Context) error {
	p.mu.Lock()
	hold := p.hold
	p.mu.Unlock()
	if hold {
		return nil
	}
	var sets appsv1.ReplicaSetList
	var pods corev1.PodList
	if err := p.api.List(ctx, &sets, client.InNamespace(p.ns)); err != nil {
		return err
	}
	if err := p.api.List(ctx, &pods, client.InNamespace(p.ns)); err != nil {
		return err
	}
	p.look(sets.Items, pods.Items)
	var errs []error
	for i := range sets.Items {
		errs = append(errs, p.playSet(ctx, &sets.Items[i], pods.Items))
	}
	for i := range pods.Items {
		errs = append(errs, p.playPod(ctx, &pods.Items[i]))
	}
	return errors.Join(errs...)
}

func (p *player) look(sets []appsv1.ReplicaSet, pods []corev1.Pod) {
	live, ready, bad := 0, 0, 0
	for _, rs := range sets {
		if *rs.Spec.Replicas == 0 {
			continue
		}
		live++
		for i := range pods {
			if metav1.IsControlledBy(&pods[i], &rs) && pods[i].DeletionTimestamp == nil {
				if isReady(&pods[i]) {
					ready++
				} else {
					bad++
				}
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fewestReady, p.mostLive, p.mostBad = min(p.fewestReady, ready), max(p.mostLive, live), max(p.mostBad, bad)
}

func isReady(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// playSet is the ReplicaSet controller.
func (p *player) playSet(ctx context.Context, rs *appsv1.ReplicaSet, pods []corev1.Pod) error {
	var mine []*corev1.Pod
	ready := int32(0)
	for i := range pods {
		if metav1.IsControlledBy(&pods[i], rs) && pods[i].DeletionTimestamp == nil {
			mine = append(mine, &pods[i])
			if isReady(&pods[i]) {
				ready++
			}
		}
	}
	switch want := int(*rs.Spec.Replicas); {
	case len(mine) < want && rs.DeletionTimestamp == nil:
		if err := p.createPod(ctx, rs); err != nil {
			return err
		}
	case want == 0:
		for _, pod := range mine {
			if err := p.api.Delete(ctx, pod); err != nil {
				return err
			}
		}
	}
	if rs.Status.ReadyReplicas != ready || rs.Status.Replicas != int32(len(mine)) {
		rs.Status.Replicas, rs.Status.ReadyReplicas, rs.Status.ObservedGeneration = int32(len(mine)), ready, rs.Generation
		return p.api.Status().Update(ctx, rs)
	}
	return nil
}

func (p *player) createPod(ctx context.Context, rs *appsv1.ReplicaSet) error {
	pod := &corev1.Pod{ObjectMeta: *rs.Spec.Template.ObjectMeta.DeepCopy(), Spec: *rs.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.GenerateName = rs.Namespace, rs.Name+"-"
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	pod.Spec.NodeName = "node-a"
	return client.IgnoreNotFound(p.api.Create(ctx, pod))
}

// playPod is the kubelet.
func (p *player) playPod(ctx context.Context, pod *corev1.Pod) error {
	if pod.DeletionTimestamp != nil {
		if pod.Annotations["test/stuck"] != "" {
			return nil
		}
		return p.api.Delete(ctx, pod, client.GracePeriodSeconds(0))
	}
	image := pod.Spec.Containers[0].Image
	if pod.Status.Phase == corev1.PodRunning && (isReady(pod) || strings.Contains(image, "hang")) || isWaiting(pod) {
		return nil
	}
	now := metav1.Now()
	state := corev1.ContainerStatus{Name: v1alpha1.RouterContainer, Image: image}
	if strings.Contains(image, "bad") {
		pod.Status.Phase = corev1.PodPending
		state.State.Waiting = &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}
	} else {
		ready := !strings.Contains(image, "hang")
		pod.Status.Phase = corev1.PodRunning
		pod.Status.PodIP = p.net.add(ctx, p, pod)
		pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
		state.ContainerID, state.Ready = "test://"+string(pod.UID), ready
		state.State.Running = &corev1.ContainerStateRunning{StartedAt: now}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: conditionOf(ready), LastTransitionTime: now}}
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{state}
	return p.api.Status().Update(ctx, pod)
}

func conditionOf(ready bool) corev1.ConditionStatus {
	if ready {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

func isWaiting(pod *corev1.Pod) bool {
	return len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Waiting != nil
}

// network carries the operator's signed requests to fake routers, by address.
type network struct {
	mu      sync.Mutex
	routers map[string]*fakeRouter
	workers int // what routers report; -1 is silence
	// untrusted is how many of the workers' ranks, one each, routers do not trust.
	untrusted int
	serial    int
}

type fakeRouter struct {
	uid types.UID
	key signed.Key
}

// setWorkers changes what every router says; -1 makes them silent.
func (n *network) setWorkers(count int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.workers = count
}

// setUntrusted changes how many ranks no router trusts.
func (n *network) setUntrusted(ranks int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.untrusted = ranks
}

// add gives a pod an address, and a router behind it that knows the fleet's token.
func (n *network) add(ctx context.Context, p *player, pod *corev1.Pod) string {
	var secret corev1.Secret
	name := children.TokensName(pod.Labels[v1alpha1.LabelFleet])
	_ = p.api.Get(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: name}, &secret) // no token: every call is refused
	n.mu.Lock()
	defer n.mu.Unlock()
	n.serial++
	ip := fmt.Sprintf("10.0.%d.%d", n.serial/250, 1+n.serial%250)
	r := &fakeRouter{uid: pod.UID}
	if tokens, err := signed.ParseTokens(secret.Data); err == nil {
		r.key = tokens.Keys()[0]
	}
	n.routers[fmt.Sprintf("%s:%d", ip, v1alpha1.PortAdmin)] = r
	return ip
}

func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	n.mu.Lock()
	r, workers, untrusted := n.routers[req.URL.Host], n.workers, n.untrusted
	n.mu.Unlock()
	if r == nil || workers < 0 {
		return nil, errors.New("connection refused")
	}
	rec := &recorder{header: http.Header{}}
	in := req.Clone(req.Context())
	in.RequestURI, in.Host, in.Body = req.URL.RequestURI(), req.URL.Host, http.NoBody
	signed.Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer := status.Status{PodUID: string(r.uid), Boot: "1", State: status.StateSettled, Verdict: status.VerdictDisabled,
			Workers: status.Workers{Discovered: workers, Usable: workers, Subscribed: workers}, Ranks: status.Ranks{Total: workers}}
		if untrusted > 0 {
			answer.Problems = []status.Problem{{Code: status.CodeKVStreamUntrusted, Count: untrusted}}
		}
		_ = json.NewEncoder(w).Encode(answer)
	}), signed.Options{Keys: func() []signed.Key { return []signed.Key{r.key} }}).ServeHTTP(rec, in)
	return &http.Response{StatusCode: rec.code, Header: rec.header, Body: io.NopCloser(&rec.body), Request: req}, nil
}

type recorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(code int) {
	if r.code == 0 {
		r.code = code
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}
