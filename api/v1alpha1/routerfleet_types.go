package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RouterFleet is a fleet of LLM routers: identical replicas behind one Service
// that forward OpenAI-style traffic to the engines they discover.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=routerfleets,singular=routerfleet,shortName=rf,categories=llm
// +kubebuilder:selectablefield:JSONPath=`.spec.rollout.state`
// +kubebuilder:selectablefield:JSONPath=`.status.updateRevision`
// +kubebuilder:printcolumn:name="DESIRED",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="READY",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="UPDATED",type=integer,JSONPath=`.status.updatedReplicas`
// +kubebuilder:printcolumn:name="AVAILABLE",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="ROLLOUT",type=string,JSONPath=`.status.conditions[?(@.type=="RollingOut")].reason`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="CURRENT",type=string,JSONPath=`.status.stableRevision`,priority=1
// +kubebuilder:printcolumn:name="UPDATE",type=string,JSONPath=`.status.updateRevision`,priority=1
// +kubebuilder:printcolumn:name="WORKERS",type=integer,JSONPath=`.status.workers.discovered`,priority=1
// +kubebuilder:printcolumn:name="IMAGE",type=string,JSONPath=`.spec.image`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40",message="metadata.name must be at most 40 characters: child names add a slot and a revision and must fit 63"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name becomes a Service name: lower case letters, digits and '-', starting with a letter, at most 40 characters"
// +kubebuilder:validation:XValidation:rule="!self.metadata.name.endsWith('-peers')",message="metadata.name must not end in '-peers': the peer Service of another fleet may own that name"
type RouterFleet struct {
	metav1.TypeMeta `json:",inline"`

	// metadata is standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired fleet.
	// +required
	Spec RouterFleetSpec `json:"spec,omitzero"`

	// status is what the operator last saw. It holds nothing that changes while
	// the fleet is at rest.
	// +optional
	Status RouterFleetStatus `json:"status,omitzero"`
}

// RouterFleetList is a list of RouterFleets.
//
// +kubebuilder:object:root=true
type RouterFleetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []RouterFleet `json:"items"`
}

// RouterFleetSpec is what the user asks for.
//
// +kubebuilder:validation:XValidation:rule="!has(self.modelID) || !has(self.models)",message="modelID and models exclude each other: modelID is short for a list of one",fieldPath=".modelID"
// +kubebuilder:validation:XValidation:rule="!has(self.models) || (has(self.workers.discovery) && self.workers.discovery != 'Plain') || self.models.filter(m, !has(m.split) || m.split.exists(t, t.model == m.name)).size() <= 1 || self.models.all(m, has(m.selector) || (has(m.split) && !m.split.exists(t, t.model == m.name)))",message="each of several models needs a selector: it divides the workers that were discovered",fieldPath=".models"
type RouterFleetSpec struct {
	// replicas is the number of routers. Leave it out of manifests that an
	// autoscaler may touch: the operator never writes it.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Replicas *int32 `json:"replicas,omitempty"`

	// image is the router image.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`

	// imagePullPolicy says when the kubelet pulls the image.
	// +optional
	// +kubebuilder:default=IfNotPresent
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSecrets names Secrets of this namespace for the registry.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// modelID names the one model this fleet serves. Leave it out for whatever
	// models the engines report.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ModelID string `json:"modelID,omitempty"`

	// models are the models this fleet serves, with further names, workers of their own,
	// and splits. Leave it out for whatever models the engines report; modelID is short
	// for one name.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.all(m, !has(m.aliases) || m.aliases.all(a, !self.exists(o, o.name == a || (o.name != m.name && has(o.aliases) && a in o.aliases))))",message="names and aliases must be unique over all models"
	// +kubebuilder:validation:XValidation:rule="self.all(m, !has(m.split) || m.split.all(t, self.exists(o, o.name == t.model && (o.name == m.name || !has(o.split)))))",message="a split must lead to names of models that are not split themselves"
	Models []ModelSpec `json:"models,omitempty"`

	// workers says how the engines are found.
	// +required
	Workers WorkersSpec `json:"workers,omitzero"`

	// routing says how requests reach workers.
	// +optional
	// +kubebuilder:default={}
	Routing RoutingSpec `json:"routing,omitzero"`

	// index is where routers keep what engines hold.
	// +optional
	// +kubebuilder:default={}
	Index IndexSpec `json:"index,omitzero"`

	// bootstrap says how a starting router learns what engines hold.
	// +optional
	// +kubebuilder:default={}
	Bootstrap BootstrapSpec `json:"bootstrap,omitzero"`

	// rollout says how a new revision replaces the old one.
	// +optional
	// +kubebuilder:default={}
	Rollout RolloutSpec `json:"rollout,omitzero"`

	// service is the Service clients use. It carries the name of the fleet.
	// +optional
	// +kubebuilder:default={}
	Service ServiceSpec `json:"service,omitzero"`

	// resources of the router container; empty means the default. That has no CPU
	// limit: throttling shows as latency on every request.
	// +optional
	// +kubebuilder:default={requests:{cpu:"500m",memory:"512Mi"}}
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// scheduling says where router pods may run.
	// +optional
	Scheduling SchedulingSpec `json:"scheduling,omitzero"`

	// drain says how long a router that is told to stop may finish its streams.
	// +optional
	// +kubebuilder:default={}
	Drain DrainSpec `json:"drain,omitzero"`

	// podTemplate adds to the router pod what this API has no field for.
	// +optional
	PodTemplate PodTemplateSpec `json:"podTemplate,omitzero"`
}
