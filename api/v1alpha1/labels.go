package v1alpha1

// FieldManager owns the fields the operator applies.
const FieldManager = "routerfleet-manager"

// Prefix of labels and annotations that belong to the operator.
const Prefix = "routerfleet.io/"

// Labels of children. A ReplicaSet selects by fleet, slot, revision and retry.
const (
	// LabelFleet is the name of the RouterFleet.
	LabelFleet = Prefix + "fleet"
	// LabelSlot is the replica's place in the fleet, a decimal number.
	LabelSlot = Prefix + "slot"
	// LabelRevision is the revision hash.
	LabelRevision = Prefix + "revision"
	// LabelRetry tells ReplicaSets of one slot and revision apart: a retired one
	// is never used again, its successor carries the next number.
	LabelRetry = Prefix + "retry"
	// LabelPeers marks the peer Service, and so its EndpointSlices, of a fleet.
	LabelPeers = Prefix + "peers"
)

// Annotations of children.
const (
	// AnnotationTemplateHash is the hash of the pod template a ReplicaSet was
	// created with, as this operator rendered it.
	AnnotationTemplateHash = Prefix + "template-hash"
	// AnnotationRetiredReason says why a ReplicaSet was retired.
	AnnotationRetiredReason = Prefix + "retired-reason"
	// AnnotationStable marks the ControllerRevision that was last fully proven.
	AnnotationStable = Prefix + "stable"
)

// Names and ports of the router container.
const (
	// RouterContainer is the name of the router container.
	RouterContainer = "router"
	// PortNameHTTP is the port clients use.
	PortNameHTTP = "http"
	// PortNameAdmin is the port of probes, metrics and internal calls.
	PortNameAdmin = "admin"
	// PortHTTP is the number of the http port.
	PortHTTP int32 = 30000
	// PortAdmin is the number of the admin port.
	PortAdmin int32 = 9400
)
