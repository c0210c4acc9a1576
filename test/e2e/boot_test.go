//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/routerfleet/routerfleet/router/bootstrap/status"
	"github.com/routerfleet/routerfleet/test/e2e/live"
)

// contiguous has a router count only what it knows from the root on: a replica that came later and was told nothing knows
// none of what was cached before.
var contiguous = set("index.match", "Contiguous")

// TestBootNewReplicasKnowWhatTheFleetKnows: what engines cached before a replica was there is never announced again, so
// only siblings can have told it.
func TestBootNewReplicasKnowWhatTheFleetKnows(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	e := s.startEngines(2, kvEngineArgs...)
	k := s.followsEvents(e, 2, replicas(3), contiguous)
	a, b := k.serveFirst(), k.serveFirst()
	k.await("every router knows both prefixes", func() error { return all(k.known(a), k.known(b)) })

	k.mustApply(replicas(5), contiguous)
	k.awaitReady()
	k.again()
	k.mustBeOneView(5)
	k.knowAtOnce(a, b)
	c := held{prefix: k.newPrefix(kvPrefixPages), engine: a.engine}
	k.give(c.engine, c.prefix)
	k.await("new replicas follow what comes later", func() error { return k.known(c) })
	for _, h := range []held{a, b, c} {
		k.mustGoTo(h)
	}
}

// TestBootAViewSurvivesAFullRollingUpdate: not one router is left that heard the engines itself.
func TestBootAViewSurvivesAFullRollingUpdate(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	e := s.startEngines(2, kvEngineArgs...)
	k := s.followsEvents(e, 2, replicas(2), contiguous)
	a, b := k.serveFirst(), k.serveFirst()
	k.await("every router knows both prefixes", func() error { return all(k.known(a), k.known(b)) })
	before := k.uids()

	k.mustApply(replicas(2), contiguous, image(k.images.routerNext))
	k.eventually(rollTimeout, "the new image is rolled out", func() error { return k.settled(k.get()) })
	for uid := range k.uids() {
		if before[uid] {
			t.Fatalf("pod %s of the old revision is still there", uid)
		}
	}
	k.again()
	k.mustBeOneView(2)
	k.knowAtOnce(a, b)
	for _, h := range []held{a, b} {
		k.mustGoTo(h)
	}
	k.restart(a, 0, b) // and a view that was copied is corrected as one that was heard
}

// TestBootAReplicaThatCannotAskSaysSoAndHealsWhenItCan: siblings are there and cannot be reached. The replica serves all the
// same, is not called warm, and copies what it missed once the way is free.
func TestBootAReplicaThatCannotAskSaysSoAndHealsWhenItCan(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	e := s.startEngines(1, kvEngineArgs...)
	k := s.followsEvents(e, 1, replicas(1), contiguous, set("bootstrap.timeoutSeconds", int64(10)))
	a := k.serveFirst()
	k.await("the router knows the prefix", func() error { return k.known(a) })

	cut := k.cutAdminPort()
	k.mustApply(replicas(2), contiguous, set("bootstrap.timeoutSeconds", int64(10)))
	k.await("the second router is ready", func() error { return k.readyRouters(2) })
	k.again()
	if err := k.client.Delete(k.ctx, cut); err != nil {
		t.Fatal(err)
	}
	k.eventually(2*time.Minute, "the replica that knew nothing has copied it", func() error { return k.oneView(2) })
	k.await("every router knows the prefix", func() error { return k.known(a) })
	k.mustGoTo(a)
}

// TestBootGoesOnThroughWhatHappensMeanwhile: a router is replaced again and again, each time while something else goes wrong.
// In the end all say the same, and it is true.
func TestBootGoesOnThroughWhatHappensMeanwhile(t *testing.T) {
	t.Parallel()
	s := newScope(t)
	e := s.startEngines(2, kvEngineArgs...)
	k := s.followsEvents(e, 2, replicas(3), contiguous)
	a, b := k.serveFirst(), k.serveFirst()
	k.await("every router knows both prefixes", func() error { return all(k.known(a), k.known(b)) })
	for _, step := range []struct {
		name string
		run  func(k *kvFleet)
	}{
		{"an engine restarts", func(k *kvFleet) {
			k.engines.fault(a.engine, `{"name":"restart","seq":0,"cut":true}`)
			a = held{prefix: k.newPrefix(kvPrefixPages), engine: a.engine}
			k.give(a.engine, a.prefix)
		}},
		{"a sibling is killed", func(k *kvFleet) { k.mustKubectl("delete", "pod", k.routers[1].pod, "--grace-period=0", "--force") }},
		{"the routers' rights are taken", func(k *kvFleet) { k.mustKubectl("delete", "rolebinding", "-l", k.selector()) }},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			k := k.in(t)
			k.again()
			k.mustKubectl("delete", "pod", k.routers[0].pod, "--wait=false")
			step.run(k)
			k.eventually(rollTimeout, "three routers have one view", func() error { return k.oneView(3) })
			k.again()
			k.await("it is the engines'", func() error { return all(k.known(a), k.known(b)) })
		}) {
			return
		}
	}
	k.again()
	k.mustGoTo(a)
	k.mustGoTo(b)
}

// again finds the routers there are now.
func (k *kvFleet) again() {
	k.Helper()
	k.routers = nil
	for _, pod := range k.pods() {
		k.routers = append(k.routers, kvRouter{pod: pod.Name, base: k.forward(pod.Name)})
	}
}

// knowAtOnce asks every router once: they are ready, so they know.
func (k *kvFleet) knowAtOnce(all ...held) {
	k.Helper()
	for _, h := range all {
		if err := k.known(h); err != nil {
			k.Errorf("right after the boot: %v", err)
		}
	}
}

func (k *kvFleet) mustBeOneView(n int) {
	k.Helper()
	k.await(fmt.Sprintf("%d routers have one view and call it warm", n), func() error { return k.oneView(n) })
}

// oneView is nil when n routers call themselves warm, and say the same of every rank.
func (k *kvFleet) oneView(n int) error {
	if err := k.readyRouters(n); err != nil {
		return err
	}
	views := map[string][]string{}
	for _, pod := range k.pods() {
		code, body, err := k.askAdmin(pod.Name, "/internal/bootstrap?detail=ranks", k.admin)
		if err != nil {
			return err
		}
		var s status.Status
		if err := json.Unmarshal(body, &s); err != nil || code != 200 {
			return fmt.Errorf("router %s: /internal/bootstrap?detail=ranks answers %d %.200s (%v)", pod.Name, code, body, err)
		}
		if s.State != status.StateSettled || s.Verdict != status.VerdictWarm {
			return fmt.Errorf("router %s is %s, %s: %.900s", pod.Name, s.State, s.Verdict, body)
		}
		var rows []string
		for _, r := range s.RankRows {
			rows = append(rows, fmt.Sprintf("%s/%d seq %d blocks %d", r.Worker, r.Rank, r.Seq, r.Blocks))
		}
		slices.Sort(rows)
		views[fmt.Sprint(rows)] = append(views[fmt.Sprint(rows)], pod.Name)
	}
	if len(views) != 1 {
		return fmt.Errorf("%d views: %v", len(views), views)
	}
	for view, pods := range maps.All(views) {
		if len(pods) != n || view == "[]" {
			return fmt.Errorf("routers %v say %s, want %d of them and some ranks", pods, view, n)
		}
	}
	return nil
}

func (k *kvFleet) readyRouters(n int) error {
	ready := 0
	for _, pod := range k.pods() {
		if live.PodReady(&pod) {
			ready++
		}
	}
	return same("ready routers", ready, n)
}

// cutAdminPort has the routers' pods take traffic for their data port only. The kubelet's probes pass all the same.
func (k *kvFleet) cutAdminPort() *networkingv1.NetworkPolicy {
	k.Helper()
	data := intstr.FromInt32(live.RouterPort)
	selector, err := metav1.ParseToLabelSelector(k.selector())
	if err != nil {
		k.Fatal(err)
	}
	cut := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: k.namespace, Name: "data-port-only"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: *selector,
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress:     []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: &data}}}},
		},
	}
	if err := k.client.Create(k.ctx, cut); err != nil {
		k.Fatal(err)
	}
	return cut
}

var _ client.Object = (*networkingv1.NetworkPolicy)(nil)
