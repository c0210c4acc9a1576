package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
)

// LabelValue is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
type LabelValue string

// AnnotationValue is the value of an annotation.
//
// +kubebuilder:validation:MaxLength=4096
type AnnotationValue string

// ServiceSpec is the Service clients use.
type ServiceSpec struct {
	// type of the Service.
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`

	// ports of the Service. All of them lead to the router's data listener.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:default={{name:"http",port:30000}}
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.filter(q, q.port == p.port).size() == 1)",message="service ports must be unique"
	Ports []ServicePort `json:"ports,omitempty"`

	// annotations are added to the Service.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317)",message="keys are at most 317 characters: a DNS name, a slash, 63 characters"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k.matches('^([^/]*[.])?routerfleet[.]io/'))",message="annotations must not use the reserved prefix routerfleet.io/"
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`

	// labels are added to the Service.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317)",message="keys are at most 317 characters: a DNS name, a slash, 63 characters"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k.matches('^([^/]*[.])?routerfleet[.]io/') || k in ['app.kubernetes.io/name', 'app.kubernetes.io/instance', 'app.kubernetes.io/managed-by'])",message="labels must not use the reserved prefix routerfleet.io/, nor app.kubernetes.io/name, instance and managed-by"
	Labels map[string]LabelValue `json:"labels,omitempty"`
}

// ServicePort is a port of the client Service.
type ServicePort struct {
	// name of the port.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// port number.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
}

// SchedulingSpec says where router pods may run.
type SchedulingSpec struct {
	// nodeSelector restricts the nodes by label.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MaxProperties=32
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations of the pods.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// affinity of the pods.
	// +optional
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// topologySpreadConstraints of the pods. Unset spreads over nodes as well as
	// possible, each revision by itself, and, with affinity unset too, prefers
	// zones with fewer of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	TopologySpreadConstraints []corev1.TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// priorityClassName of the pods.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// runtimeClassName of the pods.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	RuntimeClassName string `json:"runtimeClassName,omitempty"`
}

// DrainSpec says how long a router that is told to stop may finish its streams.
//
// +kubebuilder:validation:XValidation:rule="!has(self.terminationGracePeriodSeconds) || !has(self.preStopSeconds) || self.terminationGracePeriodSeconds > self.preStopSeconds",message="terminationGracePeriodSeconds must exceed preStopSeconds",fieldPath=".terminationGracePeriodSeconds"
type DrainSpec struct {
	// preStopSeconds is how long the pod goes on unchanged after its deletion, so
	// that everybody hears that it leaves before it refuses work.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	PreStopSeconds *int32 `json:"preStopSeconds,omitempty"`

	// terminationGracePeriodSeconds is the time from deletion to kill. It should
	// exceed preStopSeconds plus routing.requestTimeoutSeconds.
	// +optional
	// +kubebuilder:default=630
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	TerminationGracePeriodSeconds int32 `json:"terminationGracePeriodSeconds,omitempty"`
}

// PodTemplateSpec adds to the router pod what this API has no field for.
type PodTemplateSpec struct {
	// metadata is added to the pod.
	// +optional
	Metadata PodTemplateMetadata `json:"metadata,omitzero"`

	// env is added to the router container.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="!self.exists(e, e.name in ['POD_NAME', 'POD_NAMESPACE', 'POD_IP', 'POD_UID', 'ROUTERFLEET_REVISION', 'ROUTERFLEET_SLOT'])",message="env must not set POD_NAME, POD_NAMESPACE, POD_IP, POD_UID, ROUTERFLEET_REVISION or ROUTERFLEET_SLOT: routers find themselves by them"
	Env []corev1.EnvVar `json:"env,omitempty"`

	// envFrom is added to the router container.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// volumes are added to the pod.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="!self.exists(v, v.name.startsWith('routerfleet-'))",message="volume names must not use the reserved prefix routerfleet-"
	Volumes []corev1.Volume `json:"volumes,omitempty"`

	// volumeMounts are added to the router container.
	// +optional
	// +listType=map
	// +listMapKey=mountPath
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="!self.exists(m, m.name.startsWith('routerfleet-') || m.mountPath == '/etc/routerfleet' || m.mountPath.startsWith('/etc/routerfleet/'))",message="volumeMounts must not touch /etc/routerfleet or a volume of the reserved prefix routerfleet-"
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`
}

// PodTemplateMetadata is added to the metadata of router pods.
type PodTemplateMetadata struct {
	// labels are added to the pod.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317)",message="keys are at most 317 characters: a DNS name, a slash, 63 characters"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k.matches('^([^/]*[.])?routerfleet[.]io/') || k in ['app.kubernetes.io/name', 'app.kubernetes.io/instance', 'app.kubernetes.io/managed-by'])",message="labels must not use the reserved prefix routerfleet.io/, nor app.kubernetes.io/name, instance and managed-by"
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// annotations are added to the pod.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317)",message="keys are at most 317 characters: a DNS name, a slash, 63 characters"
	// +kubebuilder:validation:XValidation:rule="!self.exists(k, k.matches('^([^/]*[.])?routerfleet[.]io/'))",message="annotations must not use the reserved prefix routerfleet.io/"
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`
}
