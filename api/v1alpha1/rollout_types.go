package v1alpha1

// RolloutState says whether rollouts go on.
//
// +kubebuilder:validation:Enum=Running;Paused
type RolloutState string

const (
	// RolloutRunning lets rollouts go on.
	RolloutRunning RolloutState = "Running"
	// RolloutPaused stops surging and retiring; self-heal and scaling go on.
	RolloutPaused RolloutState = "Paused"
)

// RolloutSpec says how a new revision replaces the old one.
//
// +kubebuilder:validation:XValidation:rule="!has(self.progressDeadlineSeconds) || !has(self.minReadySeconds) || self.progressDeadlineSeconds > self.minReadySeconds",message="progressDeadlineSeconds must exceed minReadySeconds: a shorter deadline can only misfire",fieldPath=".progressDeadlineSeconds"
type RolloutSpec struct {
	// state pauses and resumes rollouts. Self-heal and scaling always go on.
	// +optional
	// +kubebuilder:default=Running
	State RolloutState `json:"state,omitempty"`

	// minReadySeconds is how long a new replica must be Ready before it counts.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	MinReadySeconds *int32 `json:"minReadySeconds,omitempty"`

	// progressDeadlineSeconds is how long an active rollout may go without
	// progress before the fleet is Stalled.
	// +optional
	// +kubebuilder:default=900
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	ProgressDeadlineSeconds int32 `json:"progressDeadlineSeconds,omitempty"`

	// restartToken rolls every replica when it changes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	RestartToken string `json:"restartToken,omitempty"`

	// revisionHistoryLimit is the number of old revisions kept for undo.
	// +optional
	// +kubebuilder:default=5
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=50
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`
}
