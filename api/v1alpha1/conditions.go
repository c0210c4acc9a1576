package v1alpha1

// Condition types. Ready, Available, WorkersDiscovered and RollingOut are always
// present once a generation was planned; Reconciling and Stalled are abnormal
// when true (the kstatus pair). Each carries the observedGeneration of the
// generation it was planned for.
const (
	// ConditionReady summarises: Available, WorkersDiscovered, not Stalled, and
	// the current generation planned.
	ConditionReady = "Ready"
	// ConditionAvailable says that enough replicas are Ready to serve.
	ConditionAvailable = "Available"
	// ConditionWorkersDiscovered says that the routers found engines.
	ConditionWorkersDiscovered = "WorkersDiscovered"
	// ConditionRollingOut says that replicas are being replaced.
	ConditionRollingOut = "RollingOut"
	// ConditionReconciling says that the fleet is on its way to the spec.
	ConditionReconciling = "Reconciling"
	// ConditionStalled says that the fleet will not get there by itself.
	ConditionStalled = "Stalled"
)

// Reasons of Ready.
const (
	// ReasonFleetReady: every input of the summary holds.
	ReasonFleetReady = "FleetReady"
	// ReasonNotAvailable: Available is not true.
	ReasonNotAvailable = "NotAvailable"
	// ReasonWorkersNotDiscovered: WorkersDiscovered is not true.
	ReasonWorkersNotDiscovered = "WorkersNotDiscovered"
	// ReasonDependenciesNotReady: a child could not be applied.
	ReasonDependenciesNotReady = "DependenciesNotReady"
	// ReasonRolloutStalled: Stalled is true.
	ReasonRolloutStalled = "RolloutStalled"
	// ReasonScaledToZero: the fleet is wanted empty; also of Available.
	ReasonScaledToZero = "ScaledToZero"
)

// Reasons of Available.
const (
	// ReasonMinimumReplicasAvailable: as many replicas as asked for, less those
	// that may be unavailable, are Ready.
	ReasonMinimumReplicasAvailable = "MinimumReplicasAvailable"
	// ReasonMinimumReplicasUnavailable: some replicas are Ready, too few.
	ReasonMinimumReplicasUnavailable = "MinimumReplicasUnavailable"
	// ReasonNoReplicas: no replica is Ready.
	ReasonNoReplicas = "NoReplicas"
)

// Reasons of WorkersDiscovered.
const (
	// ReasonWorkersFound: a replica reports usable workers.
	ReasonWorkersFound = "WorkersFound"
	// ReasonNoWorkers: every replica that answers reports none.
	ReasonNoWorkers = "NoWorkers"
	// ReasonKVStreamUntrusted: there are usable workers, and no replica trusts the
	// event stream of any of their ranks.
	ReasonKVStreamUntrusted = "KVStreamUntrusted"
	// ReasonTokenParity: there are usable workers, and some make other tokens of a
	// prompt than the routers' tokenizer.
	ReasonTokenParity = "TokenParity"
	// ReasonWorkersUnselected: the selector of no model takes some workers, which
	// serve nothing (status False while no others are usable).
	ReasonWorkersUnselected = "WorkersUnselected"
	// ReasonStatusUnreachable: no replica answers (status Unknown); also of
	// Stalled.
	ReasonStatusUnreachable = "StatusUnreachable"
	// ReasonNoReplicaAnswered: there is no replica to ask (status Unknown).
	ReasonNoReplicaAnswered = "NoReplicaAnswered"
)

// Reasons of RollingOut.
const (
	// ReasonSurging: a replica is being created.
	ReasonSurging = "Surging"
	// ReasonWaitingForBootstrap: a created replica is not Ready yet.
	ReasonWaitingForBootstrap = "WaitingForBootstrap"
	// ReasonWaitingForMinReady: a successor is Ready, not yet long enough.
	ReasonWaitingForMinReady = "WaitingForMinReady"
	// ReasonRetiring: a replica that has a successor is being retired.
	ReasonRetiring = "Retiring"
	// ReasonRollingBack: the spec asks for an older revision again.
	ReasonRollingBack = "RollingBack"
	// ReasonComplete: every replica is of the wanted revision and proven.
	ReasonComplete = "Complete"
	// ReasonPaused: rollout.state is Paused.
	ReasonPaused = "Paused"
	// ReasonHeld: the rollout waits for a person; the message says why.
	ReasonHeld = "Held"
)

// Reasons of Reconciling.
const (
	// ReasonProgressing: something is still to be done.
	ReasonProgressing = "Progressing"
	// ReasonSettled: nothing is to be done.
	ReasonSettled = "Settled"
)

// Reasons of Stalled.
const (
	// ReasonNotStalled: nothing stands in the way.
	ReasonNotStalled = "NotStalled"
	// ReasonProgressDeadlineExceeded: no progress for progressDeadlineSeconds.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonImagePullFailed: the image of the wanted revision cannot be pulled.
	ReasonImagePullFailed = "ImagePullFailed"
	// ReasonCrashLooping: the router of the wanted revision exits again and again.
	ReasonCrashLooping = "CrashLooping"
	// ReasonUnschedulable: no node takes the pod.
	ReasonUnschedulable = "Unschedulable"
	// ReasonQuotaExceeded: the namespace's quota refuses the pod.
	ReasonQuotaExceeded = "QuotaExceeded"
	// ReasonOwnershipConflict: a child's name is taken by an object of somebody
	// else.
	ReasonOwnershipConflict = "OwnershipConflict"
	// ReasonInvalidSpec: the API server or the renderer refuses what the spec
	// leads to; the message names the child.
	ReasonInvalidSpec = "InvalidSpec"
)

// Reasons of events beyond those above.
const (
	// EventRevisionCreated: a new revision of the spec was recorded.
	EventRevisionCreated = "RevisionCreated"
	// EventRolloutStarted: replicas begin to be replaced.
	EventRolloutStarted = "RolloutStarted"
	// EventReplicaSurged: a replica was created.
	EventReplicaSurged = "ReplicaSurged"
	// EventReplicaRetired: a replica was told to drain.
	EventReplicaRetired = "ReplicaRetired"
	// EventRolloutHeld: the rollout waits for a person.
	EventRolloutHeld = "RolloutHeld"
	// EventRolloutCompleted: every replica is of the wanted revision.
	EventRolloutCompleted = "RolloutCompleted"
	// EventRolloutPaused: rollout.state became Paused.
	EventRolloutPaused = "RolloutPaused"
	// EventRolloutResumed: rollout.state became Running.
	EventRolloutResumed = "RolloutResumed"
	// EventChildConflict: a child could not be applied.
	EventChildConflict = "ChildConflict"
	// EventInvalidSpec: the spec cannot be rendered or is refused.
	EventInvalidSpec = "InvalidSpec"
)
