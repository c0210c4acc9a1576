package children

import (
	"github.com/routerfleet/routerfleet/api/v1alpha1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch

// ClientService is the Service clients use. The admin port is not on it: nobody
// who may send prompts may read metrics or snapshots through it.
func ClientService(f *v1alpha1.RouterFleet) *corev1ac.ServiceApplyConfiguration {
	spec := corev1ac.ServiceSpec().
		WithType(f.Spec.Service.Type).
		WithSelector(PodSelector(f.Name))
	for _, p := range f.Spec.Service.Ports {
		spec.WithPorts(servicePort(p.Name, p.Port, v1alpha1.PortNameHTTP))
	}
	service := corev1ac.Service(ServiceName(f.Name), f.Namespace).
		WithLabels(merged(plain(f.Spec.Service.Labels), FleetLabels(f.Name))).
		WithOwnerReferences(ownerReference(f)).
		WithSpec(spec)
	if len(f.Spec.Service.Annotations) > 0 {
		service.WithAnnotations(plain(f.Spec.Service.Annotations))
	}
	return service
}

// PeerService is the headless Service by which replicas find each other. It
// lists only what is Ready as ready: publishNotReadyAddresses would make every
// endpoint claim it, and slices tell the others apart anyway.
func PeerService(f *v1alpha1.RouterFleet) *corev1ac.ServiceApplyConfiguration {
	labels := merged(FleetLabels(f.Name), map[string]string{v1alpha1.LabelPeers: f.Name})
	return corev1ac.Service(PeerServiceName(f.Name), f.Namespace).
		WithLabels(labels).
		WithOwnerReferences(ownerReference(f)).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithClusterIP(corev1.ClusterIPNone).
			WithPublishNotReadyAddresses(false).
			WithSelector(PodSelector(f.Name)).
			WithPorts(
				servicePort(v1alpha1.PortNameHTTP, v1alpha1.PortHTTP, v1alpha1.PortNameHTTP),
				servicePort(v1alpha1.PortNameAdmin, v1alpha1.PortAdmin, v1alpha1.PortNameAdmin)))
}

func servicePort(name string, port int32, target string) *corev1ac.ServicePortApplyConfiguration {
	return corev1ac.ServicePort().
		WithName(name).
		WithPort(port).
		WithProtocol(corev1.ProtocolTCP).
		WithTargetPort(intstr.FromString(target))
}
