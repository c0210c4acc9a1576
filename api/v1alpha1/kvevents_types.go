package v1alpha1

// KVEventsMode says whether routers read KV events.
//
// +kubebuilder:validation:Enum=Enabled;Disabled
type KVEventsMode string

const (
	// KVEventsEnabled has every router subscribe to every engine.
	KVEventsEnabled KVEventsMode = "Enabled"
	// KVEventsDisabled has routers know nothing of caches.
	KVEventsDisabled KVEventsMode = "Disabled"
)

// KVEventsSpec says how the engines announce what their KV caches hold. What an
// engine says itself (SGLang, in /server_info) wins; the fields after mode are for
// what it does not say. vLLM says nothing.
//
// +kubebuilder:validation:XValidation:rule="!has(self.port) || !has(self.dpSize) || self.port + self.dpSize <= 65536",message="port leaves no room for dpSize ranks: rank r publishes on port + r, at most 65535",fieldPath=".dpSize"
// +kubebuilder:validation:XValidation:rule="!has(self.replayPort) || !has(self.dpSize) || self.replayPort + self.dpSize <= 65536",message="replayPort leaves no room for dpSize ranks: rank r repeats on replayPort + r, at most 65535",fieldPath=".replayPort"
// +kubebuilder:validation:XValidation:rule="!has(self.replayPort) || !has(self.port) || self.replayPort >= self.port + (has(self.dpSize) ? self.dpSize : 1) || self.port >= self.replayPort + (has(self.dpSize) ? self.dpSize : 1)",message="replayPort and port overlap: each rank needs a port of its own for events and one for replay",fieldPath=".replayPort"
type KVEventsSpec struct {
	// mode turns the reading of KV events on and off. Only the policy CacheAware has
	// them read.
	// +optional
	// +kubebuilder:default=Enabled
	Mode KVEventsMode `json:"mode,omitempty"`

	// port is where rank 0 of an engine publishes; rank r does on port + r.
	// +optional
	// +kubebuilder:default=5557
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`

	// topic is the ZeroMQ topic of the events, as in --kv-events-config.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[ -~]*$`
	Topic string `json:"topic,omitempty"`

	// blockSize is the number of tokens of a block (--block-size). Events of an
	// engine that does not tell it are read only when it is set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	BlockSize int32 `json:"blockSize,omitempty"`

	// dpSize is the number of data-parallel ranks of an engine. Unset means 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	DPSize int32 `json:"dpSize,omitempty"`

	// replayPort is where rank 0 of an engine repeats events; rank r does on
	// replayPort + r. Unset means that events cannot be repeated.
	// +optional
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=65535
	ReplayPort int32 `json:"replayPort,omitempty"`

	// hash says how the engines hash blocks, if routers can compute the same.
	// Unset means that routers make keys of their own of the announced tokens.
	// +optional
	Hash KVEventsHash `json:"hash,omitzero"`
}

// KVEventsHashAlgorithm is an engine's hash of blocks.
//
// +kubebuilder:validation:Enum=sha256_cbor
type KVEventsHashAlgorithm string

// HashSHA256CBOR is vLLM's --prefix-caching-hash-algo sha256_cbor.
const HashSHA256CBOR KVEventsHashAlgorithm = "sha256_cbor"

// KVEventsHash is how engines hash blocks. Without both its fields it says nothing.
//
// +kubebuilder:validation:XValidation:rule="has(self.algorithm) == has(self.seed)",message="algorithm and seed belong together: a router computes the engines' hashes from both"
type KVEventsHash struct {
	// algorithm is the one the engines are started with
	// (--prefix-caching-hash-algo).
	// +optional
	Algorithm KVEventsHashAlgorithm `json:"algorithm,omitempty"`

	// seed is the PYTHONHASHSEED of the engines. It is no secret.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:Pattern=`^[0-9]+$`
	Seed string `json:"seed,omitempty"`
}
