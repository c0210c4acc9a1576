package live

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
)

// Forward opens a loopback address that leads to a port of a pod, as `kubectl port-forward` does, and
// returns it as host:port. Call stop when done; a pod that goes away ends the forward.
func (c *Cluster) Forward(ctx context.Context, namespace, pod string, port int) (address string, stop func(), err error) {
	url := c.Client.CoreV1().RESTClient().Post().Namespace(namespace).Resource("pods").
		Name(pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(c.Config)
	if err != nil {
		return "", nil, fmt.Errorf("forward to pod %s/%s port %d: %w", namespace, pod, port, err)
	}
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	done, ready := make(chan struct{}), make(chan struct{})
	// What a single connection suffers, its client sees; the forwarder's own end is returned below.
	forwarder, err := portforward.NewOnAddresses(dialer, []string{"127.0.0.1"},
		[]string{fmt.Sprintf("0:%d", port)}, done, ready, io.Discard, io.Discard)
	if err != nil {
		return "", nil, fmt.Errorf("forward to pod %s/%s port %d: %w", namespace, pod, port, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	// Being told to stop is the only way it ends by now; what it says then is no news.
	stop = func() { close(done); <-ended } //nolint:errcheck // see above

	timeout := time.NewTimer(dialTimeout)
	defer timeout.Stop()
	select {
	case <-ready:
	case err := <-ended:
		return "", nil, fmt.Errorf("forward to pod %s/%s port %d: %w", namespace, pod, port, err)
	case <-ctx.Done():
		stop()
		return "", nil, fmt.Errorf("forward to pod %s/%s port %d: %w", namespace, pod, port, ctx.Err())
	case <-timeout.C:
		stop()
		return "", nil, fmt.Errorf("forward to pod %s/%s port %d: no connection after %s", namespace, pod, port, dialTimeout)
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		stop()
		return "", nil, fmt.Errorf("forward to pod %s/%s port %d: %w", namespace, pod, port, err)
	}
	return fmt.Sprintf("127.0.0.1:%d", ports[0].Local), stop, nil
}
