//go:build e2e

package e2e

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/routerfleet/routerfleet/test/e2e/live"
)

const (
	engineService = "engine"
	enginePort    = 8000
)

// engines are engine doubles behind a headless Service. They are bare pods: when one is deleted or
// loses its label nothing replaces it, so a test knows what there is.
type engines struct {
	*scope
	args []string
	// reads names a ConfigMap with the tokenizer they read prompts by; empty: a byte is a token.
	reads string
}

// startEngines runs n engine doubles and waits until they are ready.
func (s *scope) startEngines(n int, args ...string) *engines {
	s.Helper()
	return s.startReaders(n, "", args...)
}

// startReaders runs doubles that read prompts by the tokenizer of a ConfigMap.
func (s *scope) startReaders(n int, reads string, args ...string) *engines {
	s.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: engineService, Namespace: s.namespace, Labels: map[string]string{"app": engineService}},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone,
			Selector:  map[string]string{"app": engineService},
			Ports:     []corev1.ServicePort{{Name: "http", Port: enginePort, TargetPort: intstr.FromString("http")}},
		},
	}
	if err := s.client.Create(s.ctx, service); err != nil {
		s.Fatalf("create service %s: %v", engineService, err)
	}
	e := &engines{scope: s, args: args, reads: reads}
	for i := range n {
		e.add(engineName(i))
	}
	e.awaitReady(n)
	return e
}

func engineName(i int) string { return fmt.Sprintf("%s-%d", engineService, i) }

// add starts one engine double.
func (e *engines) add(name string) {
	e.Helper()
	args := append([]string{
		"--port=" + fmt.Sprint(enginePort), "--model=" + modelID, "--engine=sglang",
		"--prefill-tokens-per-second=200000", "--ms-per-token=2",
	}, e.args...)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: e.namespace, Labels: map[string]string{"app": engineService}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](10),
			AutomountServiceAccountToken:  ptr.To(false),
			SecurityContext:               live.RestrictedPod(),
			Containers: []corev1.Container{{
				Name:            "engine",
				Image:           e.images.engine,
				ImagePullPolicy: corev1.PullIfNotPresent,
				Args:            args,
				Ports:           []corev1.ContainerPort{{Name: "http", ContainerPort: enginePort}},
				Env: []corev1.EnvVar{{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{
					FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}},
				ReadinessProbe: &corev1.Probe{
					ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
						Path: "/ready", Port: intstr.FromString("http")}},
					PeriodSeconds: 1, FailureThreshold: 1,
				},
				SecurityContext: live.RestrictedContainer(),
			}},
		},
	}
	if e.reads != "" {
		pod.Spec.Volumes = []corev1.Volume{{Name: "tokenizer", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: e.reads}}}}}
		engine := &pod.Spec.Containers[0]
		engine.Args = append(engine.Args, "--tokenizer-path=/tokenizer")
		engine.VolumeMounts = []corev1.VolumeMount{{Name: "tokenizer", MountPath: "/tokenizer", ReadOnly: true}}
	}
	if err := e.client.Create(e.ctx, pod); err != nil {
		e.Fatalf("create engine %s: %v", name, err)
	}
}

// awaitReady waits until n engines of the Service are ready.
func (e *engines) awaitReady(n int) {
	e.Helper()
	e.await(fmt.Sprintf("%d engines are ready", n), func() error {
		pods, err := e.Pods(e.ctx, e.namespace, "app="+engineService)
		if err != nil {
			return err
		}
		ready := 0
		for i := range pods {
			if live.PodReady(&pods[i]) {
				ready++
			}
		}
		return same("ready engines", ready, n)
	})
}

// remove deletes an engine as `kubectl delete pod` does.
func (e *engines) remove(name string) {
	e.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: e.namespace}}
	if err := e.client.Delete(e.ctx, pod); err != nil {
		e.Fatalf("delete engine %s: %v", name, err)
	}
}

// label sets the label the Service selects by.
func (e *engines) label(name, app string) {
	e.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: e.namespace}}
	patch := fmt.Sprintf(`{"metadata":{"labels":{"app":%q}}}`, app)
	if err := e.client.Patch(e.ctx, pod, client.RawPatch("application/merge-patch+json", []byte(patch))); err != nil {
		e.Fatalf("label engine %s: %v", name, err)
	}
}

// ready makes an engine pass or fail its readiness probe; it goes on to answer requests.
func (e *engines) ready(name string, ready bool) {
	e.Helper()
	var err error
	if ready {
		_, err = e.PodRequest(e.ctx, "DELETE", e.namespace, name, enginePort, "/control/faults/ready_fail", nil)
	} else {
		_, err = e.PodRequest(e.ctx, "POST", e.namespace, name, enginePort, "/control/faults", []byte(`{"name":"ready_fail"}`))
	}
	if err != nil {
		e.Fatal(err)
	}
}

// requests is how many generation requests reached an engine, by its own count.
func (e *engines) requests(name string) int {
	e.Helper()
	metrics, err := e.Scrape(e.ctx, e.namespace, name, enginePort)
	if err != nil {
		e.Fatal(err)
	}
	sum, _ := metrics.Sum("enginesim_requests", nil)
	return int(sum)
}
