package live

import (
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
)

// Objects makes a client for typed objects, RouterFleets among them.
func (c *Cluster) Objects() (client.Client, error) {
	// The client logs through a process-wide logger and prints a stack after 30 s without one. It has
	// nothing to say that its errors do not.
	log.SetLogger(logr.Discard())
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("build the scheme: %w", err)
		}
	}
	objects, err := client.New(c.Config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("build a client for %s: %w", c.Kubeconfig, err)
	}
	return objects, nil
}
