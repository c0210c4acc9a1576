//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/routerfleet/routerfleet/test/e2e/live"
)

const (
	// dumpLogLines and dumpBytes bound what a failed test prints of one container and of one listing.
	dumpLogLines = 60
	dumpBytes    = 24 << 10
)

// dump prints the state of the namespace, its events and logs, and the operator's log.
func (s *scope) dump(ctx context.Context) {
	for _, args := range [][]string{
		{"get", "routerfleets,replicasets,pods,services,endpointslices,jobs", "-o", "wide", "--show-labels"},
		{"get", "routerfleets", "-o", "yaml"},
		{"get", "events", "--sort-by=.lastTimestamp"},
	} {
		out, err := s.Kubectl(ctx, append([]string{"-n", s.namespace}, args...)...)
		if err != nil {
			out += err.Error()
		}
		s.Logf("kubectl %s\n%s", strings.Join(args, " "), clip(out))
	}
	s.dumpLogs(ctx, s.namespace)
	s.dumpLogs(ctx, live.OperatorNamespace)
}

func (s *scope) dumpLogs(ctx context.Context, namespace string) {
	pods, err := s.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		s.Logf("list pods of %s: %v", namespace, err)
		return
	}
	for _, pod := range pods.Items {
		for _, container := range pod.Spec.Containers {
			s.Logf("log of %s/%s %s\n%s", namespace, pod.Name, container.Name, clip(s.tail(ctx, &pod, container.Name)))
		}
	}
}

func (s *scope) tail(ctx context.Context, pod *corev1.Pod, container string) string {
	stream, err := s.Client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: container, TailLines: ptr.To[int64](dumpLogLines),
	}).Stream(ctx)
	if err != nil {
		return err.Error()
	}
	defer stream.Close()
	text, err := io.ReadAll(io.LimitReader(stream, dumpBytes))
	if err != nil {
		return fmt.Sprintf("%s\n%v", text, err)
	}
	return string(text)
}

func clip(text string) string {
	if len(text) > dumpBytes {
		return text[:dumpBytes] + "\n[cut]"
	}
	return text
}
