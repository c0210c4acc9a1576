package v1alpha1

// RoutingPolicy chooses the worker of a request.
//
// +kubebuilder:validation:Enum=CacheAware;PowerOfTwo;RoundRobin
type RoutingPolicy string

const (
	// PolicyCacheAware takes the rank that has least to do for the request, what
	// its KV cache holds of the prompt counted in.
	PolicyCacheAware RoutingPolicy = "CacheAware"
	// PolicyPowerOfTwo takes the less loaded of two random ranks.
	PolicyPowerOfTwo RoutingPolicy = "PowerOfTwo"
	// PolicyRoundRobin takes the ranks in turn.
	PolicyRoundRobin RoutingPolicy = "RoundRobin"
)

// RoutingSpec says how requests reach workers.
//
// +kubebuilder:validation:XValidation:rule="!has(self.staleRequestTimeoutSeconds) || !has(self.requestTimeoutSeconds) || self.staleRequestTimeoutSeconds >= self.requestTimeoutSeconds",message="staleRequestTimeoutSeconds must be at least requestTimeoutSeconds",fieldPath=".staleRequestTimeoutSeconds"
type RoutingSpec struct {
	// policy chooses the worker of a request. CacheAware follows the engines' KV
	// events; where there are none it chooses by load.
	// +optional
	// +kubebuilder:default=CacheAware
	Policy RoutingPolicy `json:"policy,omitempty"`

	// cacheAware are the weights of the policy CacheAware. Public traces need none
	// of them changed.
	// +optional
	// +kubebuilder:default={}
	CacheAware CacheAwareSpec `json:"cacheAware,omitzero"`

	// requestTimeoutSeconds bounds a request; of a stream, its time to the first
	// byte.
	// +optional
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	RequestTimeoutSeconds int32 `json:"requestTimeoutSeconds,omitempty"`

	// staleRequestTimeoutSeconds ends any request or stream that is older.
	// +optional
	// +kubebuilder:default=1800
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=172800
	StaleRequestTimeoutSeconds int32 `json:"staleRequestTimeoutSeconds,omitempty"`

	// circuitBreaker takes a failing worker out of rotation for a while.
	// +optional
	// +kubebuilder:default={}
	CircuitBreaker CircuitBreakerSpec `json:"circuitBreaker,omitzero"`

	// maxConcurrentRequests bounds the requests a replica works on; more are answered
	// 429. Unset means no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MaxConcurrentRequests *int32 `json:"maxConcurrentRequests,omitempty"`

	// extraArgs are added to the router's command line, one --flag=value each.
	// Flags that a field or the operator sets are refused.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=3
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.all(a, a.matches('^--[a-z][a-z0-9-]*(=|$)'))",message="each of extraArgs must be one --flag or --flag=value"
	// +kubebuilder:validation:XValidation:rule="!self.exists(a, a.matches('^--(no-)?(kv-|admin-|hash-seed-file|host|port|selector|service-discovery|token-dir|worker|shutdown-|model-id|models-file|policy|request-timeout-secs|stale-request-timeout-secs|cb-|max-concurrent-requests|kubeconfig|pod-uid|revision|host-tier-percent|disk-tier-percent|untrusted-percent|pile-up-tokens|predict-ttl-secs|prefill-scale-percent|decode-weight-percent|index-|match)'))",message="extraArgs must not set a flag that the operator or a field owns: --kv-*, --admin-*, --host, --port, --selector, --service-discovery*, --token-dir, --worker*, --shutdown-*, --hash-seed-file, --model-id, --models-file, --policy*, --request-timeout-secs, --stale-request-timeout-secs, --cb-*, --max-concurrent-requests, --kubeconfig, --pod-uid, --revision, --host-tier-percent, --disk-tier-percent, --untrusted-percent, --pile-up-tokens, --predict-ttl-secs, --prefill-scale-percent, --decode-weight-percent, --index-*, --match"
	ExtraArgs []string `json:"extraArgs,omitempty"`
}

// CircuitBreakerSpec takes a failing worker out of rotation for a while.
type CircuitBreakerSpec struct {
	// failureThreshold is the number of consecutive failures that opens the
	// breaker. 4xx, 429 and 503 are not failures.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	FailureThreshold int32 `json:"failureThreshold,omitempty"`

	// coolDownSeconds is the time until one request may probe the worker again.
	// +optional
	// +kubebuilder:default=30
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	CoolDownSeconds int32 `json:"coolDownSeconds,omitempty"`
}

// CacheAwareSpec are the weights of the policy CacheAware. Zero is a value of
// each.
type CacheAwareSpec struct {
	// hostTierPercent is what a block in host memory counts of one in device memory.
	// +optional
	// +kubebuilder:default=75
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	HostTierPercent *int32 `json:"hostTierPercent,omitempty"`

	// diskTierPercent is what a block on disk, or in an external store, counts of
	// one in device memory.
	// +optional
	// +kubebuilder:default=25
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	DiskTierPercent *int32 `json:"diskTierPercent,omitempty"`

	// untrustedPercent is what the blocks of a rank count whose event stream has a
	// hole.
	// +optional
	// +kubebuilder:default=50
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	UntrustedPercent *int32 `json:"untrustedPercent,omitempty"`

	// pileUpTokens is how many tokens more than the mean a rank may have waiting.
	// More lets more requests wait where their prefix is.
	// +optional
	// +kubebuilder:default=16384
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	PileUpTokens *int32 `json:"pileUpTokens,omitempty"`

	// predictTTLSeconds is how long a prompt counts as held by the rank it was sent
	// to before the engine has said so. 0 turns it off.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=600
	PredictTTLSeconds *int32 `json:"predictTTLSeconds,omitempty"`

	// prefillScalePercent weighs tokens that wait or must be computed.
	// +optional
	// +kubebuilder:default=100
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	PrefillScalePercent *int32 `json:"prefillScalePercent,omitempty"`

	// decodeWeightPercent weighs tokens of requests past their first byte. Every
	// active request already counts as 512 tokens.
	// +optional
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	DecodeWeightPercent *int32 `json:"decodeWeightPercent,omitempty"`
}
