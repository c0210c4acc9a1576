package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxReplicasDetail is the number of replicas status lists; the rest is counted
// in status.truncated. 64 rows keep the object far below the 1.5 MiB of etcd.
const MaxReplicasDetail = 64

// RouterFleetStatus is what the operator last saw. A count that is absent has
// not been observed yet.
type RouterFleetStatus struct {
	// conditions say in one word each how the fleet is.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation whose spec was fully planned and whose
	// status this is.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// replicas is the number of router pods that are not terminating, surge
	// included.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// readyReplicas are the replicas that are Ready.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ReadyReplicas *int32 `json:"readyReplicas,omitempty"`

	// availableReplicas are the replicas that are Ready for minReadySeconds.
	// +optional
	// +kubebuilder:validation:Minimum=0
	AvailableReplicas *int32 `json:"availableReplicas,omitempty"`

	// updatedReplicas are the replicas of updateRevision.
	// +optional
	// +kubebuilder:validation:Minimum=0
	UpdatedReplicas *int32 `json:"updatedReplicas,omitempty"`

	// terminatingReplicas are the router pods that still drain.
	// +optional
	// +kubebuilder:validation:Minimum=0
	TerminatingReplicas *int32 `json:"terminatingReplicas,omitempty"`

	// selector matches the pods counted in replicas, for autoscalers.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Selector string `json:"selector,omitempty"`

	// stableRevision is the last revision that was fully proven.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	StableRevision string `json:"stableRevision,omitempty"`

	// updateRevision is the revision the spec asks for.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	UpdateRevision string `json:"updateRevision,omitempty"`

	// rollout is the rollout that is going on, or the last one.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`

	// replicasDetail has a row for each replica, those that need attention first.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	ReplicasDetail []ReplicaStatus `json:"replicasDetail,omitempty"`

	// truncated is the number of replicas that replicasDetail leaves out.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Truncated int32 `json:"truncated,omitempty"`

	// workers counts the engines the routers report. Absent while no router told.
	// +optional
	Workers *WorkersStatus `json:"workers,omitempty"`

	// serviceURL is where clients of the cluster reach the fleet.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ServiceURL string `json:"serviceURL,omitempty"`

	// peerServiceName is the headless Service by which replicas find each other.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	PeerServiceName string `json:"peerServiceName,omitempty"`

	// renderVersion is the version of the rendering rules that updateRevision is
	// pinned to.
	// +optional
	// +kubebuilder:validation:Minimum=1
	RenderVersion int32 `json:"renderVersion,omitempty"`
}

// RolloutStatus is one rollout.
type RolloutStatus struct {
	// cause says why replicas are replaced.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Cause string `json:"cause,omitempty"`

	// startTime is when the rollout began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// lastProgressTime is when the rollout last got further. It is no heartbeat.
	// +optional
	LastProgressTime *metav1.Time `json:"lastProgressTime,omitempty"`
}

// ReplicaState says in one word how a replica is.
//
// +kubebuilder:validation:Enum=Pending;Starting;Ready;Failed;Unreachable;Terminating
type ReplicaState string

const (
	// ReplicaPending has no running container yet.
	ReplicaPending ReplicaState = "Pending"
	// ReplicaStarting runs but is not Ready.
	ReplicaStarting ReplicaState = "Starting"
	// ReplicaReady is Ready.
	ReplicaReady ReplicaState = "Ready"
	// ReplicaFailed cannot start: image, crash loop, unschedulable.
	ReplicaFailed ReplicaState = "Failed"
	// ReplicaUnreachable runs but does not answer the operator.
	ReplicaUnreachable ReplicaState = "Unreachable"
	// ReplicaTerminating drains.
	ReplicaTerminating ReplicaState = "Terminating"
)

// ReplicaStatus is one replica.
type ReplicaStatus struct {
	// name of the pod.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`

	// slot is the replica's place in the fleet.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Slot *int32 `json:"slot,omitempty"`

	// revision of the replica.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Revision string `json:"revision,omitempty"`

	// state says in one word how the replica is.
	// +optional
	State ReplicaState `json:"state,omitempty"`

	// reason of a state that needs one, as ImagePullBackOff.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`

	// since is when the state began.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// WorkersStatus counts the engines the routers report.
type WorkersStatus struct {
	// discovered is the number of engines that are named, usable or not, the most
	// any replica reports.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Discovered *int32 `json:"discovered,omitempty"`

	// subscribed is the number of engines whose KV events are read, the fewest
	// any replica reports. Absent while routers do not subscribe.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Subscribed *int32 `json:"subscribed,omitempty"`
}
