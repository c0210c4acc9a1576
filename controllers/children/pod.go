package children

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/routerfleet/routerfleet/api/v1alpha1"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
)

// podInput is what a pod is rendered from.
type podInput struct {
	fleet, namespace string
	revision         string
	slot, retry      int32
	spec             v1alpha1.RouterFleetSpec
	args             []string
	models           *modelsFile // nil without spec.models
}

// podMutators build the router pod, in order. What the user adds comes before
// hardening, which has the last word.
var podMutators = []func(*corev1.PodTemplateSpec, podInput){
	podMetadata,
	podIdentity,
	routerContainer,
	ports,
	downwardAPI,
	probes,
	drain,
	tokensVolume,
	modelsVolumes,
	scheduling,
	userAdditions,
	hardening,
}

// podTemplate renders the pod of a revision in a slot.
func podTemplate(f *v1alpha1.RouterFleet, r Revision, slot, retry int32) (*corev1.PodTemplateSpec, error) {
	spec, err := r.Spec()
	if err != nil {
		return nil, fmt.Errorf("render revision %s of RouterFleet %s/%s: %w", r.Hash, f.Namespace, f.Name, err)
	}
	args, err := routerArgs(f.Namespace, f.Name, &spec)
	if err != nil {
		return nil, fmt.Errorf("render revision %s of RouterFleet %s/%s: %w", r.Hash, f.Namespace, f.Name, err)
	}
	models, err := modelsOf(f.Name, spec.Models)
	if err != nil {
		return nil, fmt.Errorf("render revision %s of RouterFleet %s/%s: %w", r.Hash, f.Namespace, f.Name, err)
	}
	in := podInput{
		fleet: f.Name, namespace: f.Namespace,
		revision: r.Hash, slot: slot, retry: retry,
		spec: spec, args: args, models: models,
	}
	pod := &corev1.PodTemplateSpec{}
	pod.Spec.Containers = []corev1.Container{{}}
	for _, mutate := range podMutators {
		mutate(pod, in)
	}
	return pod, nil
}

// router is the router container, always the first.
func router(pod *corev1.PodTemplateSpec) *corev1.Container { return &pod.Spec.Containers[0] }

func podMetadata(pod *corev1.PodTemplateSpec, in podInput) {
	user := in.spec.PodTemplate.Metadata
	pod.Labels = merged(plain(user.Labels), FleetLabels(in.fleet), SlotSelector(in.fleet, in.revision, in.slot, in.retry))
	if len(user.Annotations) > 0 {
		pod.Annotations = plain(user.Annotations)
	}
}

// podIdentity mounts the token here and only here: discovery needs it.
func podIdentity(pod *corev1.PodTemplateSpec, in podInput) {
	pod.Spec.ServiceAccountName = RouterName(in.fleet)
	pod.Spec.AutomountServiceAccountToken = ptr.To(true)
	// Variables for every Service of the namespace would make the environment of
	// a pod depend on what happened to exist when it started.
	pod.Spec.EnableServiceLinks = ptr.To(false)
	pod.Spec.ImagePullSecrets = in.spec.ImagePullSecrets
}

func routerContainer(pod *corev1.PodTemplateSpec, in podInput) {
	c := router(pod)
	c.Name = v1alpha1.RouterContainer
	c.Image = in.spec.Image
	c.ImagePullPolicy = in.spec.ImagePullPolicy
	c.Args = in.args
	c.Resources = in.spec.Resources
	// The last lines of the log become the reason of a crash in the pod status.
	c.TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
}

func ports(pod *corev1.PodTemplateSpec, _ podInput) {
	router(pod).Ports = []corev1.ContainerPort{
		{Name: v1alpha1.PortNameHTTP, ContainerPort: v1alpha1.PortHTTP, Protocol: corev1.ProtocolTCP},
		{Name: v1alpha1.PortNameAdmin, ContainerPort: v1alpha1.PortAdmin, Protocol: corev1.ProtocolTCP},
	}
}

// ownedEnv is what a router knows itself by, in order. No user value replaces it.
var ownedEnv = []struct{ name, fieldPath string }{
	{"POD_NAME", "metadata.name"},
	{"POD_NAMESPACE", "metadata.namespace"},
	{"POD_IP", "status.podIP"},
	{"POD_UID", "metadata.uid"},
	{"ROUTERFLEET_REVISION", "metadata.labels['" + v1alpha1.LabelRevision + "']"},
	{"ROUTERFLEET_SLOT", "metadata.labels['" + v1alpha1.LabelSlot + "']"},
}

func downwardAPI(pod *corev1.PodTemplateSpec, _ podInput) {
	for _, e := range ownedEnv {
		router(pod).Env = append(router(pod).Env, corev1.EnvVar{
			Name: e.name,
			ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: e.fieldPath},
			},
		})
	}
}

// probes ask the admin listener. Readiness leaves the Services within about two
// seconds; liveness is slow to judge, because a restart loses the index; the
// startup probe gives a cold node two minutes.
func probes(pod *corev1.PodTemplateSpec, _ podInput) {
	c := router(pod)
	c.StartupProbe = httpProbe("/healthz", 1, 2, 120)
	c.LivenessProbe = httpProbe("/healthz", 10, 5, 6)
	c.ReadinessProbe = httpProbe("/readyz", 1, 2, 2)
}

func httpProbe(path string, periodSeconds, timeoutSeconds, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path:   path,
			Port:   intstr.FromString(v1alpha1.PortNameAdmin),
			Scheme: corev1.URISchemeHTTP,
		}},
		PeriodSeconds:    periodSeconds,
		TimeoutSeconds:   timeoutSeconds,
		SuccessThreshold: 1,
		FailureThreshold: failures,
	}
}

func drain(pod *corev1.PodTemplateSpec, in podInput) {
	pod.Spec.TerminationGracePeriodSeconds = ptr.To(int64(in.spec.Drain.TerminationGracePeriodSeconds))
	if sleep := ptr.Deref(in.spec.Drain.PreStopSeconds, 0); sleep > 0 {
		router(pod).Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{
			Sleep: &corev1.SleepAction{Seconds: int64(sleep)},
		}}
	}
}

const (
	tokensVolumeName = "routerfleet-tokens"
	// tokensMode lets the group of the pod read, nobody else.
	tokensMode int32 = 0o440
)

func tokensVolume(pod *corev1.PodTemplateSpec, in podInput) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
		Name: tokensVolumeName,
		VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName:  TokensName(in.fleet),
			DefaultMode: ptr.To(tokensMode),
		}},
	})
	router(pod).VolumeMounts = append(router(pod).VolumeMounts, corev1.VolumeMount{
		Name: tokensVolumeName, MountPath: tokensPath, ReadOnly: true,
	})
}

func scheduling(pod *corev1.PodTemplateSpec, in podInput) {
	s := in.spec.Scheduling
	pod.Spec.NodeSelector = s.NodeSelector
	pod.Spec.Tolerations = s.Tolerations
	pod.Spec.Affinity = s.Affinity
	pod.Spec.PriorityClassName = s.PriorityClassName
	if s.RuntimeClassName != "" {
		pod.Spec.RuntimeClassName = ptr.To(s.RuntimeClassName)
	}
	pod.Spec.TopologySpreadConstraints = s.TopologySpreadConstraints
	if len(s.TopologySpreadConstraints) > 0 {
		return // where the pods go is the user's
	}
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{spreadOverNodes(in.fleet)}
	if s.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: preferOtherZones(in.fleet)}
	}
}

// spreadOverNodes spreads each revision by itself: without matchLabelKeys the old
// pods of a rollout would push the new ones together.
//
// It is the only constraint. The scheduler scores a node by its constraints only
// if the node has the labels of all of them: beside one for the zone, this one
// would do nothing on a cluster whose nodes carry no zone, and every router could
// land on one node.
func spreadOverNodes(fleet string) corev1.TopologySpreadConstraint {
	return corev1.TopologySpreadConstraint{
		MaxSkew:           1,
		TopologyKey:       corev1.LabelHostname,
		WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector:     &metav1.LabelSelector{MatchLabels: PodSelector(fleet)},
		MatchLabelKeys:    []string{v1alpha1.LabelRevision},
	}
}

// zoneWeight is of 1 to 100. A single preference needs only be above zero; the
// middle leaves room on both sides for what an admission webhook adds.
const zoneWeight = 50

// preferOtherZones is the spread over zones as a preference. Unlike a spread
// constraint it leaves nodes without a zone in the running.
func preferOtherZones(fleet string) *corev1.PodAntiAffinity {
	return &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: zoneWeight,
			PodAffinityTerm: corev1.PodAffinityTerm{
				TopologyKey:    corev1.LabelTopologyZone,
				LabelSelector:  &metav1.LabelSelector{MatchLabels: PodSelector(fleet)},
				MatchLabelKeys: []string{v1alpha1.LabelRevision},
			},
		}},
	}
}

// userAdditions come after the operator's, so that they may refer to $(POD_IP),
// and leave out what is not theirs even if the schema let it through.
func userAdditions(pod *corev1.PodTemplateSpec, in podInput) {
	add, c := in.spec.PodTemplate, router(pod)
	for _, e := range add.Env {
		if !isOwnedEnv(e.Name) {
			c.Env = append(c.Env, e)
		}
	}
	c.EnvFrom = add.EnvFrom
	for _, v := range add.Volumes {
		if !strings.HasPrefix(v.Name, ownedVolumePrefix) {
			pod.Spec.Volumes = append(pod.Spec.Volumes, v)
		}
	}
	for _, m := range add.VolumeMounts {
		if !strings.HasPrefix(m.Name, ownedVolumePrefix) && !strings.HasPrefix(m.MountPath+"/", ownedPath) {
			c.VolumeMounts = append(c.VolumeMounts, m)
		}
	}
}

func isOwnedEnv(name string) bool {
	return slices.ContainsFunc(ownedEnv, func(e struct{ name, fieldPath string }) bool { return e.name == name })
}

// routerUser is the non-root user and group of the image.
const routerUser int64 = 65532

// hardening enforces the restricted pod security standard.
func hardening(pod *corev1.PodTemplateSpec, _ podInput) {
	pod.Spec.SecurityContext = &corev1.PodSecurityContext{
		RunAsNonRoot:   ptr.To(true),
		RunAsUser:      ptr.To(routerUser),
		RunAsGroup:     ptr.To(routerUser),
		FSGroup:        ptr.To(routerUser),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].SecurityContext = &corev1.SecurityContext{
			RunAsNonRoot:             ptr.To(true),
			AllowPrivilegeEscalation: ptr.To(false),
			ReadOnlyRootFilesystem:   ptr.To(true),
			Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile:           &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}
	}
}

// templateIntent is the template as apply configuration, and its bytes: struct
// fields in order, map keys sorted.
func templateIntent(pod *corev1.PodTemplateSpec) (*corev1ac.PodTemplateSpecApplyConfiguration, []byte, error) {
	raw, err := json.Marshal(pod)
	if err != nil {
		return nil, nil, fmt.Errorf("write pod template: %w", err)
	}
	intent := corev1ac.PodTemplateSpec()
	if err := json.Unmarshal(raw, intent); err != nil {
		return nil, nil, fmt.Errorf("read pod template as apply configuration: %w", err)
	}
	return intent, raw, nil
}
