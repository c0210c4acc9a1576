package v1alpha1

// IndexMatch says what of a prompt a rank is taken to hold.
//
// +kubebuilder:validation:Enum=Deepest;Contiguous
type IndexMatch string

const (
	// MatchDeepest takes a rank that holds a block for one that holds all blocks
	// before it.
	MatchDeepest IndexMatch = "Deepest"
	// MatchContiguous counts blocks from the first to the first that is missing.
	MatchContiguous IndexMatch = "Contiguous"
)

// IndexSpec is the index in which routers keep what engines hold.
type IndexSpec struct {
	// maxBlocks bounds the blocks of a replica's indexes together, some 48 bytes each;
	// there is one index for each model and block size, and they share by need. Unset
	// means what 60 percent of the replica's memory limit hold, without a limit 25
	// percent of the node's memory.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000000000
	MaxBlocks int64 `json:"maxBlocks,omitempty"`

	// match says what of a prompt a rank is taken to hold. Deepest believes that
	// a rank which holds a block holds all before it; Contiguous only what was
	// announced.
	// +optional
	// +kubebuilder:default=Deepest
	Match IndexMatch `json:"match,omitempty"`
}
