package manager

// What the operator may do beside applying children, whose rules stand beside
// their renderers. No *, no escalate, no bind: the rules it grants to routers are
// rules it holds.
//
// +kubebuilder:rbac:groups=routerfleet.io,resources=routerfleets,verbs=get;list;watch
// +kubebuilder:rbac:groups=routerfleet.io,resources=routerfleets/status,verbs=patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
//
// In its own namespace: the election Lease, and the events about it.
//
// +kubebuilder:rbac:namespace=routerfleet-system,groups=coordination.k8s.io,resources=leases,verbs=create
// +kubebuilder:rbac:namespace=routerfleet-system,groups=coordination.k8s.io,resources=leases,resourceNames=routerfleet-manager,verbs=get;update
// +kubebuilder:rbac:namespace=routerfleet-system,groups="",resources=events,verbs=create;patch
