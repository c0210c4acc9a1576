package kvevents

import "github.com/routerfleet/routerfleet/router/index"

// Medium is where an engine says a block is.
type Medium uint8

// The media.
const (
	MediumUntagged Medium = iota // the engine did not say
	MediumGPU
	MediumHost
	MediumDisk
	MediumExternal
	MediumUnknown // a name we do not know
)

// mediumOf reads the names of SGLang (GPU, CPU_PINNED, DISK, EXTERNAL) and vLLM (GPU, CPU, STORAGE).
func mediumOf(name []byte) Medium {
	switch string(name) {
	case "GPU":
		return MediumGPU
	case "CPU_PINNED", "CPU":
		return MediumHost
	case "DISK", "STORAGE":
		return MediumDisk
	case "EXTERNAL", "REMOTE":
		return MediumExternal
	default:
		return MediumUnknown
	}
}

// String names the medium as metrics do.
func (m Medium) String() string {
	switch m {
	case MediumUntagged:
		return "untagged"
	case MediumGPU:
		return "GPU"
	case MediumHost:
		return "CPU_PINNED"
	case MediumDisk:
		return "DISK"
	case MediumExternal:
		return "EXTERNAL"
	default:
		return "unknown"
	}
}

// StoreTier is the tier a stored block is in. 0 for a medium we do not know: such a store is dropped. Store narrow,
// remove wide.
func (m Medium) StoreTier() index.Tier {
	switch m {
	case MediumUntagged, MediumGPU:
		return index.Device
	case MediumHost:
		return index.Host
	case MediumDisk:
		return index.Disk
	case MediumExternal:
		return index.External
	default:
		return 0
	}
}

// RemoveTier is the tiers a removed block is no longer in: all of them unless the medium is known.
func (m Medium) RemoveTier() index.Tier {
	if m == MediumUntagged || m == MediumUnknown {
		return index.AllTiers
	}
	return m.StoreTier()
}

// GroupKind is what a KV cache group of a hybrid model keeps.
type GroupKind uint8

// The kinds. Blocks of full-attention groups prove their whole prefix, those of the others do not.
const (
	GroupUnspecified GroupKind = iota // the engine did not say; one kind of attention
	GroupFull
	GroupWindow
	GroupOther // states, encoders, and kinds we do not know
)

// groupKindOf reads vLLM's kv_cache_spec_kind.
func groupKindOf(name []byte) GroupKind {
	switch string(name) {
	case "full_attention", "mla_attention", "sink_full_attention":
		return GroupFull
	case "sliding_window", "sliding_window_mla", "chunked_local_attention":
		return GroupWindow
	default:
		return GroupOther
	}
}

// String names the kind.
func (k GroupKind) String() string {
	switch k {
	case GroupUnspecified:
		return "unspecified"
	case GroupFull:
		return "full"
	case GroupWindow:
		return "window"
	default:
		return "other"
	}
}
