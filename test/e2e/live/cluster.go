package live

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster is a connection to one cluster. It is safe for concurrent use.
type Cluster struct {
	// Root is the folder of the repository: kubectl runs there, so -k config/default means what it says.
	Root string
	// Kubeconfig is the file Config was read from.
	Kubeconfig string
	// Program is the kubectl that Kubectl runs.
	Program string
	// Config is ready for further clients. It has no client-side rate limit: a test that waits in a
	// client's queue measures the queue.
	Config *rest.Config
	Client kubernetes.Interface
}

// Connect opens the cluster that kubeconfig names and asks it for its version.
func Connect(ctx context.Context, root, kubeconfig string) (*Cluster, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w; start a cluster with `bin/cluster up` or name another by E2E_KUBECONFIG", kubeconfig, err)
	}
	config.QPS, config.Burst = -1, -1
	config.UserAgent = "routerfleet-live"
	// Warnings of the API server about a manifest are for kubectl's user, not for a test log.
	config.WarningHandler = rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("build client for %s: %w", kubeconfig, err)
	}
	kubectl, err := findKubectl(root)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Root: root, Kubeconfig: kubeconfig, Program: kubectl, Config: config, Client: client}
	if err := c.Reachable(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// Reachable says whether the API server is ready to serve.
func (c *Cluster) Reachable(ctx context.Context) error {
	_, err := c.Client.CoreV1().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("ask %s for /readyz: %w; is the cluster of %s running?", c.Config.Host, err, c.Kubeconfig)
	}
	return nil
}

// findKubectl prefers $KUBECTL, then the one built with the local cluster, then the PATH.
func findKubectl(root string) (string, error) {
	if named := os.Getenv("KUBECTL"); named != "" {
		return named, nil
	}
	built := filepath.Join(root, "bin", "kube", "kubectl")
	if _, err := os.Stat(built); err == nil {
		return built, nil
	}
	path, err := exec.LookPath("kubectl")
	if err != nil {
		return "", fmt.Errorf("find kubectl: not in $KUBECTL, not at %s, not in PATH: build it with `bin/cluster build`", built)
	}
	return path, nil
}

// Kubectl runs kubectl with args on this cluster and returns what it wrote to standard output. A failure
// carries what kubectl wrote to standard error, which is what its user would read.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.KubectlWith(ctx, "", args...)
}

// KubectlWith is Kubectl with text on standard input, for `kubectl apply -f -`.
func (c *Cluster) KubectlWith(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.Program, args...)
	cmd.Dir = c.Root
	cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig)
	cmd.Stdin = strings.NewReader(input)
	var out, errOut limitedBuffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String(), &KubectlError{Args: args, Stderr: strings.TrimSpace(errOut.String()), Err: err}
	}
	return out.String(), nil
}

// KubectlError is a kubectl call that failed, with what it told its user.
type KubectlError struct {
	Args   []string
	Stderr string
	Err    error
}

func (e *KubectlError) Error() string {
	return fmt.Sprintf("kubectl %s: %v: %s", strings.Join(e.Args, " "), e.Err, e.Stderr)
}

func (e *KubectlError) Unwrap() error { return e.Err }

// limitedBuffer keeps the first maxOutput bytes and swallows the rest.
type limitedBuffer struct{ bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	if room := maxOutput - b.Len(); room < len(p) {
		b.Buffer.Write(p[:max(room, 0)])
		return len(p), nil
	}
	return b.Buffer.Write(p)
}

// PodGet reads path from a port of a pod through the API server's proxy.
func (c *Cluster) PodGet(ctx context.Context, namespace, pod string, port int, path string) ([]byte, error) {
	return c.PodRequest(ctx, "GET", namespace, pod, port, path, nil)
}

// PodRequest sends a request to path on a port of a pod through the API server's proxy, with a JSON body
// unless that is nil.
func (c *Cluster) PodRequest(ctx context.Context, verb, namespace, pod string, port int, path string, body []byte) ([]byte, error) {
	path, query, _ := strings.Cut(path, "?")
	request := c.Client.CoreV1().RESTClient().Verb(verb).Namespace(namespace).Resource("pods").
		SubResource("proxy").Name(pod + ":" + strconv.Itoa(port)).Suffix(path)
	for _, pair := range strings.Split(query, "&") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			request = request.Param(key, value)
		}
	}
	if body != nil {
		request = request.SetHeader("Content-Type", "application/json").Body(body)
	}
	stream, err := request.Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s %s of pod %s/%s port %d: %w", verb, path, namespace, pod, port, err)
	}
	defer stream.Close()
	answer, err := io.ReadAll(io.LimitReader(stream, maxMetrics+1))
	if err != nil {
		return nil, fmt.Errorf("read %s of pod %s/%s port %d: %w", path, namespace, pod, port, err)
	}
	if len(answer) > maxMetrics {
		return nil, fmt.Errorf("read %s of pod %s/%s port %d: more than %d bytes", path, namespace, pod, port, maxMetrics)
	}
	return answer, nil
}

// Pods lists the pods of a namespace that selector matches and that are not being deleted.
func (c *Cluster) Pods(ctx context.Context, namespace, selector string) ([]corev1.Pod, error) {
	list, err := c.Client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, fmt.Errorf("list pods of %s with %q: %w", namespace, selector, err)
	}
	pods := list.Items[:0]
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

// PodReady says whether the kubelet reported the pod Ready and nobody asked it to go.
func PodReady(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil {
		return false
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
