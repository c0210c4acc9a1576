package v1alpha1

// BootstrapMode says whom a starting router asks for what engines hold.
//
// +kubebuilder:validation:Enum=Peer;Disabled
type BootstrapMode string

const (
	// BootstrapPeer copies the index of a warm sibling.
	BootstrapPeer BootstrapMode = "Peer"
	// BootstrapDisabled starts with nothing.
	BootstrapDisabled BootstrapMode = "Disabled"
)

// SeedPolicy says whether a router may serve without a copy that was to be had.
//
// +kubebuilder:validation:Enum=Preferred;Required
type SeedPolicy string

const (
	// SeedPreferred lets a router serve when it has asked long enough.
	SeedPreferred SeedPolicy = "Preferred"
	// SeedRequired keeps a router unready longer while siblings are there that
	// have not given a copy.
	SeedRequired SeedPolicy = "Required"
)

// BootstrapSpec says how a starting router learns what engines hold.
type BootstrapSpec struct {
	// mode is Peer, to copy from a warm sibling, or Disabled. It takes effect where
	// routers follow the engines' events.
	// +optional
	// +kubebuilder:default=Peer
	Mode BootstrapMode `json:"mode,omitempty"`

	// seedPolicy is Preferred, to serve without a copy when none was to be had in
	// time, or Required, to stay unready up to three times timeoutSeconds, at least a
	// minute, while siblings are there.
	// +optional
	// +kubebuilder:default=Preferred
	SeedPolicy SeedPolicy `json:"seedPolicy,omitempty"`

	// timeoutSeconds is how long a starting router looks for a copy.
	// +optional
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=600
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`

	// fetchTimeoutSeconds bounds one transfer.
	// +optional
	// +kubebuilder:default=120
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=600
	FetchTimeoutSeconds int32 `json:"fetchTimeoutSeconds,omitempty"`

	// upstreamPeers are routers of the open SGLang stack to copy from once, when
	// moving away from them.
	// +optional
	UpstreamPeers UpstreamPeersSpec `json:"upstreamPeers,omitzero"`
}

// UpstreamPeersSpec names routers of another kind by their Service.
//
// +kubebuilder:validation:XValidation:rule="has(self.serviceName)",message="upstreamPeers needs serviceName"
type UpstreamPeersSpec struct {
	// serviceName is their Service, in the fleet's namespace. Without it nobody is asked.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ServiceName string `json:"serviceName,omitempty"`

	// portName is the name of its port.
	// +optional
	// +kubebuilder:default=http
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	PortName string `json:"portName,omitempty"`
}
