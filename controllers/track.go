package controllers

import (
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/prober"
)

// track tells the prober whom to ask: every running router of a ReplicaSet of ours that is not terminating. Addresses
// come from pods we own and nowhere else.
func (r *Reconciler) track(p *plan) {
	var targets []prober.Target
	for i := range p.pods {
		pod := &p.pods[i]
		view := podView(pod)
		if view.Terminating || view.Done || !view.Running || view.Container.ID == "" {
			continue
		}
		targets = append(targets, prober.Target{
			Container: view.Container,
			Address:   net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(adminPort(pod)))),
		})
	}
	r.prober.Track(keyOf(p.fleet), r.notes.read(p.fleet).keys, targets)
}

// adminPort is the number behind the port name admin, or the default one.
func adminPort(pod *corev1.Pod) int32 {
	for _, c := range pod.Spec.Containers {
		i := slices.IndexFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == v1alpha1.PortNameAdmin })
		if c.Name == v1alpha1.RouterContainer && i >= 0 {
			return c.Ports[i].ContainerPort
		}
	}
	return v1alpha1.PortAdmin
}

// fleetOf is the fleet a labelled object belongs to; empty without the label.
func fleetOf(labels map[string]string, namespace string) types.NamespacedName {
	if name := labels[v1alpha1.LabelFleet]; name != "" {
		return types.NamespacedName{Namespace: namespace, Name: name}
	}
	return types.NamespacedName{}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
