package live

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
)

// Load is one run of the load generator as a Job of one pod.
type Load struct {
	Namespace string
	Name      string
	Image     string
	// Args go to the load generator as they are.
	Args []string
}

// Job renders the Job: one attempt, no restart, fit for a namespace that enforces the restricted pod
// security standard.
func (l Load) Job() *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: l.Name, Namespace: l.Namespace, Labels: map[string]string{"app": "loadgen"}},
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr.To[int32](0),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "loadgen"}},
				Spec: corev1.PodSpec{
					RestartPolicy:                 corev1.RestartPolicyNever,
					TerminationGracePeriodSeconds: ptr.To[int64](30),
					AutomountServiceAccountToken:  ptr.To(false),
					SecurityContext:               RestrictedPod(),
					Containers: []corev1.Container{{
						Name:            "loadgen",
						Image:           l.Image,
						ImagePullPolicy: corev1.PullIfNotPresent,
						Args:            l.Args,
						SecurityContext: RestrictedContainer(),
					}},
				},
			},
		},
	}
}

// RestrictedPod is the pod's half of what pod security "restricted" asks for.
func RestrictedPod() *corev1.PodSecurityContext {
	return &corev1.PodSecurityContext{
		RunAsNonRoot:   ptr.To(true),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// RestrictedContainer is the container's half.
func RestrictedContainer() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false),
		ReadOnlyRootFilesystem:   ptr.To(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// Start creates the Job after an earlier one of the same name is gone.
func (c *Cluster) Start(ctx context.Context, load Load) error {
	if err := c.DeleteLoad(ctx, load.Namespace, load.Name); err != nil {
		return err
	}
	if _, err := c.Client.BatchV1().Jobs(load.Namespace).Create(ctx, load.Job(), metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create job %s/%s: %w", load.Namespace, load.Name, err)
	}
	return nil
}

// DeleteLoad removes the Job and waits until its pods are gone with it.
func (c *Cluster) DeleteLoad(ctx context.Context, namespace, name string) error {
	jobs := c.Client.BatchV1().Jobs(namespace)
	err := jobs.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationForeground)})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete job %s/%s: %w", namespace, name, err)
	}
	return poll(ctx, func(ctx context.Context) (bool, error) {
		_, err := jobs.Get(ctx, name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
}

// StopLoad ends the sending before its time. The pod gets a deadline that has passed, so the kubelet tells
// the load generator to stop, which it does after the requests on their way; unlike a deletion this leaves
// the pod and its log, and so the result.
func (c *Cluster) StopLoad(ctx context.Context, namespace, name string) error {
	pod, err := c.loadPod(ctx, namespace, name)
	if err != nil {
		return err
	}
	patch := []byte(`{"spec":{"activeDeadlineSeconds":1}}`)
	if _, err := c.Client.CoreV1().Pods(namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("stop job %s/%s: %w", namespace, name, err)
	}
	return nil
}

// Follow hands every line the load generator prints to each, from the first to the last, and returns
// when its pod has ended. How the pod ended is not an error: the lines say what happened. A pod that
// ended without printing a line is one, with the reason the kubelet gives.
func (c *Cluster) Follow(ctx context.Context, namespace, name string, each func(line []byte) error) error {
	pod, err := c.loadPod(ctx, namespace, name)
	if err != nil {
		return err
	}
	stream, err := c.Client.CoreV1().Pods(namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Follow: true}).Stream(ctx)
	if err != nil {
		return fmt.Errorf("follow the log of pod %s/%s: %w", namespace, pod.Name, err)
	}
	defer stream.Close()
	lines := bufio.NewScanner(stream)
	lines.Buffer(make([]byte, 64<<10), maxLogLine)
	for lines.Scan() {
		if err := each(lines.Bytes()); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("follow the log of pod %s/%s: %w", namespace, pod.Name, err)
	}
	return nil
}

// loadPod waits until the pod of a Job has started, or has failed to.
func (c *Cluster) loadPod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	options := metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=" + name}
	pods, err := c.Client.CoreV1().Pods(namespace).List(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("list pods of job %s/%s: %w", namespace, name, err)
	}
	for i := range pods.Items {
		if started(&pods.Items[i]) {
			return &pods.Items[i], nil
		}
	}
	options.ResourceVersion = pods.ResourceVersion
	events, err := c.Client.CoreV1().Pods(namespace).Watch(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("watch pods of job %s/%s: %w", namespace, name, err)
	}
	defer events.Stop()
	waiting := "no pod was created"
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the pod of job %s/%s: %w: %s", namespace, name, ctx.Err(), waiting)
		case event, open := <-events.ResultChan():
			if !open {
				return nil, fmt.Errorf("watch pods of job %s/%s: %w", namespace, name, errWatchEnded)
			}
			pod, isPod := event.Object.(*corev1.Pod)
			if !isPod || event.Type == watch.Deleted {
				continue
			}
			if started(pod) {
				return pod, nil
			}
			waiting = whyWaiting(pod)
		}
	}
}

var errWatchEnded = errors.New("the API server ended the watch")

func started(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodPending
}

// whyWaiting is what the kubelet or the scheduler say about a pod that has not started.
func whyWaiting(pod *corev1.Pod) string {
	for _, status := range pod.Status.ContainerStatuses {
		if waiting := status.State.Waiting; waiting != nil {
			return fmt.Sprintf("%s: %s", waiting.Reason, waiting.Message)
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Status != corev1.ConditionTrue && condition.Message != "" {
			return fmt.Sprintf("%s: %s", condition.Reason, condition.Message)
		}
	}
	return "its pod is pending"
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// pollPeriod is how often a waiter asks: often enough to be unnoticed by a person, seldom enough to be
// unnoticed by an API server that shares two cores with everything else.
const pollPeriod = 200 * time.Millisecond

// poll asks until done, an error or the end of ctx.
func poll(ctx context.Context, done func(context.Context) (bool, error)) error {
	tick := time.NewTicker(pollPeriod)
	defer tick.Stop()
	for {
		ok, err := done(ctx)
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
