package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// WorkerDiscovery says where workers come from.
//
// +kubebuilder:validation:Enum=Plain;Static
type WorkerDiscovery string

const (
	// DiscoveryPlain finds workers by labels of EndpointSlices; static workers
	// are added to them.
	DiscoveryPlain WorkerDiscovery = "Plain"
	// DiscoveryStatic uses the listed workers only.
	DiscoveryStatic WorkerDiscovery = "Static"
)

// WorkersSpec says how the engines are found.
//
// +union
// +kubebuilder:validation:XValidation:rule="self.discovery != 'Plain' || has(self.plain)",message="plain is required when discovery is Plain",fieldPath=".plain"
// +kubebuilder:validation:XValidation:rule="self.discovery == 'Plain' || !has(self.plain)",message="plain must not be set unless discovery is Plain",fieldPath=".plain"
// +kubebuilder:validation:XValidation:rule="self.discovery != 'Static' || (has(self.static) && self.static.size() > 0)",message="static needs at least one worker when discovery is Static",fieldPath=".static"
type WorkersSpec struct {
	// discovery is the way workers are found. Plain finds them by labels of their
	// EndpointSlices, Static uses the listed ones.
	// +optional
	// +unionDiscriminator
	// +kubebuilder:default=Plain
	Discovery WorkerDiscovery `json:"discovery,omitempty"`

	// plain finds workers by label.
	// +optional
	Plain *PlainDiscovery `json:"plain,omitempty"`

	// port is the worker port, by name or number, as EndpointSlices know it.
	// +optional
	// +kubebuilder:default="http"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 65535 : self.matches('^([a-z0-9]+-)*[a-z0-9]+$') && self.matches('[a-z]') && self.size() <= 15",message="port must be 1 to 65535 or a port name: at most 15 lower case letters, digits and '-', with a letter"
	Port intstr.IntOrString `json:"port,omitzero"`

	// static lists workers that no Service announces. They are added to those
	// that discovery finds.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=256
	Static []StaticWorker `json:"static,omitempty"`

	// kvEvents says how the engines announce what their KV caches hold.
	// +optional
	// +kubebuilder:default={}
	KVEvents KVEventsSpec `json:"kvEvents,omitzero"`
}

// PlainDiscovery finds workers by label.
type PlainDiscovery struct {
	// selector matches labels of EndpointSlices in the namespace of the fleet: an
	// EndpointSlice carries the labels of its Service. Every pod behind the port
	// is one worker.
	// +required
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0)",message="selector must not be empty: it would select every Service of the namespace"
	Selector metav1.LabelSelector `json:"selector,omitzero"`
}

// StaticWorker is a worker known by its address.
type StaticWorker struct {
	// id names the worker in metrics and errors.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`
	ID string `json:"id,omitempty"`

	// url is the base address, as in http://10.0.0.7:8000. Credentials do not
	// belong here.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != '' && !self.matches('[@,?#\\\\s]')",message="url must be http(s)://host[:port][/path] without credentials, query, fragment or comma"
	URL string `json:"url,omitempty"`

	// labels are for the selectors of models.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317 && k.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="keys must be label keys: a name of at most 63 letters, digits, '-', '_' and '.', maybe after a DNS name and a slash"
	Labels map[string]LabelValue `json:"labels,omitempty"`
}
