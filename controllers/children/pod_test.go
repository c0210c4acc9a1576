package children

import (
	"slices"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/api/v1alpha1"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func podOf(t testing.TB, f *v1alpha1.RouterFleet) *corev1.PodTemplateSpec {
	t.Helper()
	pod, err := podTemplate(f, revisionOf(t, f), 4, 0)
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// The schema refuses these; an object stored before a rule may still carry them.
func TestUsersCannotReplaceWhatRoutersFindThemselvesBy(t *testing.T) {
	pod := podOf(t, fleet(func(f *v1alpha1.RouterFleet) {
		f.Spec.PodTemplate.Env = []corev1.EnvVar{{Name: "POD_UID", Value: "forged"}, {Name: "A", Value: "$(POD_IP)"}}
		f.Spec.PodTemplate.Metadata.Labels = map[string]v1alpha1.LabelValue{v1alpha1.LabelSlot: "9", "app.kubernetes.io/name": "x"}
		f.Spec.PodTemplate.Volumes = []corev1.Volume{{Name: tokensVolumeName}}
		f.Spec.PodTemplate.VolumeMounts = []corev1.VolumeMount{{Name: "x", MountPath: tokensPath}}
	}))
	var names []string
	for _, e := range router(pod).Env {
		names = append(names, e.Name)
		if isOwnedEnv(e.Name) && (e.Value != "" || e.ValueFrom == nil || e.ValueFrom.FieldRef == nil) {
			t.Errorf("%s does not come from the downward API: %+v", e.Name, e)
		}
	}
	want := []string{"POD_NAME", "POD_NAMESPACE", "POD_IP", "POD_UID", "ROUTERFLEET_REVISION", "ROUTERFLEET_SLOT", "A"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("environment:\n%s", diff)
	}
	if pod.Labels[v1alpha1.LabelSlot] != "4" || pod.Labels["app.kubernetes.io/name"] != appName {
		t.Errorf("labels are %v", pod.Labels)
	}
	if len(pod.Spec.Volumes) != 1 || len(router(pod).VolumeMounts) != 1 {
		t.Errorf("volumes %v, mounts %v: want the tokens alone", pod.Spec.Volumes, router(pod).VolumeMounts)
	}
}

// Every requirement of the restricted pod security standard.
func TestPodsMeetTheRestrictedStandard(t *testing.T) {
	for _, path := range []string{"minimal", "production", "static", "models"} {
		pod := podOf(t, readFleet(t, "testdata/"+path+"/fleet.yaml"))
		p := pod.Spec.SecurityContext
		if !*p.RunAsNonRoot || *p.RunAsUser == 0 || p.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: pod %+v", path, p)
		}
		if pod.Spec.HostNetwork || pod.Spec.HostPID || pod.Spec.HostIPC {
			t.Errorf("%s: uses a namespace of the host", path)
		}
		for _, c := range pod.Spec.Containers {
			s := c.SecurityContext
			if *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !*s.RunAsNonRoot || s.Privileged != nil ||
				!slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
				t.Errorf("%s: container %s: %+v", path, c.Name, s)
			}
		}
	}
}

// A second constraint would take the nodes without its label out of the scoring.
func TestPodsSpreadOverNodesWhetherOrNotThereAreZones(t *testing.T) {
	spread := podOf(t, fleet()).Spec.TopologySpreadConstraints
	if len(spread) != 1 || spread[0].TopologyKey != corev1.LabelHostname || spread[0].WhenUnsatisfiable != corev1.ScheduleAnyway {
		t.Errorf("constraints are %+v, want one over hostnames", spread)
	}
}

func TestZonesArePreferredOnlyWhereTheUserSaysNothing(t *testing.T) {
	nodes := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	racks := []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "rack", WhenUnsatisfiable: corev1.DoNotSchedule}}
	for name, c := range map[string]struct {
		user  v1alpha1.SchedulingSpec
		zones bool
		keys  []string
	}{
		"nothing":     {v1alpha1.SchedulingSpec{}, true, []string{corev1.LabelHostname}},
		"affinity":    {v1alpha1.SchedulingSpec{Affinity: nodes}, false, []string{corev1.LabelHostname}},
		"constraints": {v1alpha1.SchedulingSpec{TopologySpreadConstraints: racks}, false, []string{"rack"}},
	} {
		pod := podOf(t, fleet(func(f *v1alpha1.RouterFleet) { f.Spec.Scheduling = c.user })).Spec
		if zones := pod.Affinity != nil && pod.Affinity.PodAntiAffinity != nil; zones != c.zones {
			t.Errorf("%s: zones preferred is %v, want %v", name, zones, c.zones)
		}
		var keys []string
		for _, s := range pod.TopologySpreadConstraints {
			keys = append(keys, s.TopologyKey)
		}
		if diff := cmp.Diff(c.keys, keys); diff != "" {
			t.Errorf("%s: constraints over:\n%s", name, diff)
		}
	}
}

func TestHardeningHasTheLastWord(t *testing.T) {
	pod := &corev1.PodTemplateSpec{}
	pod.Spec.Containers = []corev1.Container{
		{SecurityContext: &corev1.SecurityContext{Privileged: ptr.To(true)}}, {Name: "second"},
	}
	podMutators[len(podMutators)-1](pod, podInput{})
	for _, c := range pod.Spec.Containers {
		if c.SecurityContext.Privileged != nil || !*c.SecurityContext.RunAsNonRoot {
			t.Errorf("the last mutator left %+v", c.SecurityContext)
		}
	}
}

func TestTheTokenIsMountedOnThePodAlone(t *testing.T) {
	if automount := ServiceAccount(fleet()).AutomountServiceAccountToken; *automount {
		t.Error("every pod that names the ServiceAccount gets its token")
	}
	if pod := podOf(t, fleet()); !*pod.Spec.AutomountServiceAccountToken {
		t.Error("routers cannot discover without a token")
	}
}

// What the router gets must end before the kubelet kills it, for every grace the
// API allows.
func TestTheDrainFitsTheGrace(t *testing.T) {
	for _, preStop := range []int32{0, 1, 10, 3600} {
		for grace := preStop + 1; grace < preStop+2000; grace++ {
			d := &v1alpha1.DrainSpec{PreStopSeconds: ptr.To(preStop), TerminationGracePeriodSeconds: grace}
			drain, linger := drainBudget(d)
			if drain < 1 || linger == 0 || preStop+max(linger, 0)+drain > grace {
				t.Fatalf("grace %d, preStop %d: drain %d, linger %d", grace, preStop, drain, linger)
			}
		}
	}
	var spec v1alpha1.DrainSpec
	spec.Default()
	if drain, linger := drainBudget(&spec); drain != 600 || linger != 5 {
		t.Errorf("defaults give drain %d and linger %d, want the router's own defaults 600 and 5", drain, linger)
	}
}

func TestNoPreStopSleepMeansNoHook(t *testing.T) {
	pod := podOf(t, fleet(func(f *v1alpha1.RouterFleet) { f.Spec.Drain.PreStopSeconds = ptr.To[int32](0) }))
	if router(pod).Lifecycle != nil {
		t.Errorf("lifecycle is %+v", router(pod).Lifecycle)
	}
}

func TestDollarsInValuesAreLiteral(t *testing.T) {
	pod := podOf(t, fleet(func(f *v1alpha1.RouterFleet) { f.Spec.ModelID = "$(POD_IP)" }))
	if !slices.Contains(router(pod).Args, "--model-id=$$(POD_IP)") {
		t.Errorf("the kubelet would expand the model: %q", router(pod).Args)
	}
}

// Kubernetes names: pods add 6 characters, Services and labels end at 63.
func TestNamesOfTheLongestFleetFit(t *testing.T) {
	longest := strings.Repeat("f", 40)
	hash := strings.Repeat("h", 10)
	for _, name := range []string{
		RouterName(longest), ServiceName(longest), PeerServiceName(longest), TokensName(longest), RevisionName(longest, hash),
		ReplicaSetName(longest, hash, 2000, 0) + "-xxxxx",
	} {
		if len(name) > 63 {
			t.Errorf("%s has %d characters", name, len(name))
		}
	}
}

func TestReplicaSetsOfOneSlotNeverShareASelector(t *testing.T) {
	r := revisionOf(t, fleet())
	seen := map[string]string{}
	for slot := range int32(3) {
		for retry := range int32(3) {
			rs, err := ReplicaSet(fleet(), r, slot, retry)
			if err != nil {
				t.Fatal(err)
			}
			labels := rs.Spec.Selector.MatchLabels
			key := labels[v1alpha1.LabelFleet] + labels[v1alpha1.LabelSlot] + labels[v1alpha1.LabelRevision] + labels[v1alpha1.LabelRetry]
			if other, taken := seen[key]; taken {
				t.Errorf("%s and %s share %v", *rs.Name, other, labels)
			}
			seen[key] = *rs.Name
			for k, v := range labels {
				if rs.Spec.Template.Labels[k] != v {
					t.Errorf("%s does not select its own pods: %s", *rs.Name, k)
				}
			}
		}
	}
}

// The template hash must tell a changed template from the same one.
func TestTheTemplateHashFollowsTheTemplate(t *testing.T) {
	r := revisionOf(t, fleet())
	hashOf := func(f *v1alpha1.RouterFleet, r Revision, slot int32) string {
		rs, err := ReplicaSet(f, r, slot, 0)
		if err != nil {
			t.Fatal(err)
		}
		return rs.Annotations[v1alpha1.AnnotationTemplateHash]
	}
	one := hashOf(fleet(), r, 1)
	if one == "" || one != hashOf(fleet(), r, 1) {
		t.Errorf("hash %q is not stable", one)
	}
	if one == hashOf(fleet(), r, 2) {
		t.Error("another slot has the same template")
	}
	scaled := fleet(func(f *v1alpha1.RouterFleet) {
		f.Spec.Replicas = ptr.To[int32](9)
		f.Labels = map[string]string{"a": "b"}
	})
	if one != hashOf(scaled, r, 1) {
		t.Error("scaling changes the template")
	}
}
