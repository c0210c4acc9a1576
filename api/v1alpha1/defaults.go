package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Default fills in what the API server would have filled in from the schema. It
// changes nothing on an object that was read from a cluster; renderers and
// offline tools call it so that they see no difference. Idempotent.
func (s *RouterFleetSpec) Default() {
	setDefault(&s.Replicas, ptr.To[int32](2))
	setDefault(&s.ImagePullPolicy, corev1.PullIfNotPresent)
	s.Workers.Default()
	s.Routing.Default()
	s.Index.Default()
	s.Bootstrap.Default()
	s.Rollout.Default()
	s.Service.Default()
	s.Drain.Default()
	if r := s.Resources; len(r.Requests)+len(r.Limits)+len(r.Claims) == 0 {
		s.Resources.Requests = corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("500m"),
			corev1.ResourceMemory: resource.MustParse("512Mi"),
		}
	}
}

// Default fills in the static defaults.
func (s *WorkersSpec) Default() {
	setDefault(&s.Discovery, DiscoveryPlain)
	setDefault(&s.Port, intstr.FromString("http"))
	s.KVEvents.Default()
}

// Default fills in the static defaults.
func (s *KVEventsSpec) Default() {
	setDefault(&s.Mode, KVEventsEnabled)
	setDefault(&s.Port, 5557)
}

// Default fills in the static defaults.
func (s *RoutingSpec) Default() {
	setDefault(&s.Policy, PolicyCacheAware)
	s.CacheAware.Default()
	setDefault(&s.RequestTimeoutSeconds, 600)
	setDefault(&s.StaleRequestTimeoutSeconds, 1800)
	setDefault(&s.CircuitBreaker.FailureThreshold, 5)
	setDefault(&s.CircuitBreaker.CoolDownSeconds, 30)
}

// Default fills in the static defaults.
func (s *CacheAwareSpec) Default() {
	setDefault(&s.HostTierPercent, ptr.To[int32](75))
	setDefault(&s.DiskTierPercent, ptr.To[int32](25))
	setDefault(&s.UntrustedPercent, ptr.To[int32](50))
	setDefault(&s.PileUpTokens, ptr.To[int32](16384))
	setDefault(&s.PredictTTLSeconds, ptr.To[int32](5))
	setDefault(&s.PrefillScalePercent, ptr.To[int32](100))
	setDefault(&s.DecodeWeightPercent, ptr.To[int32](0))
}

// Default fills in the static defaults.
func (s *BootstrapSpec) Default() {
	setDefault(&s.Mode, BootstrapPeer)
	setDefault(&s.SeedPolicy, SeedPreferred)
	setDefault(&s.TimeoutSeconds, 60)
	setDefault(&s.FetchTimeoutSeconds, 120)
	if s.UpstreamPeers.ServiceName != "" {
		setDefault(&s.UpstreamPeers.PortName, "http")
	}
}

// Default fills in the static defaults.
func (s *IndexSpec) Default() { setDefault(&s.Match, MatchDeepest) }

// Default fills in the static defaults.
func (s *RolloutSpec) Default() {
	setDefault(&s.State, RolloutRunning)
	setDefault(&s.MinReadySeconds, ptr.To[int32](10))
	setDefault(&s.ProgressDeadlineSeconds, 900)
	setDefault(&s.RevisionHistoryLimit, ptr.To[int32](5))
}

// Default fills in the static defaults.
func (s *ServiceSpec) Default() {
	setDefault(&s.Type, corev1.ServiceTypeClusterIP)
	if len(s.Ports) == 0 {
		s.Ports = []ServicePort{{Name: PortNameHTTP, Port: PortHTTP}}
	}
}

// Default fills in the static defaults.
func (s *DrainSpec) Default() {
	setDefault(&s.PreStopSeconds, ptr.To[int32](10))
	setDefault(&s.TerminationGracePeriodSeconds, 630)
}

func setDefault[T comparable](field *T, value T) {
	var unset T
	if *field == unset {
		*field = value
	}
}
