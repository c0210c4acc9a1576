package live

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Where config/default puts the operator.
const (
	OperatorNamespace  = "routerfleet-system"
	OperatorDeployment = "routerfleet-manager"
)

// InstallOperator applies config/default.
func (c *Cluster) InstallOperator(ctx context.Context) error {
	return c.ApplyDeployment(ctx, OperatorNamespace, OperatorDeployment, "-k", "config/default")
}

// ApplyDeployment applies a manifest (the arguments -f FILE or -k FOLDER) that holds a Deployment. A
// Deployment that was there before is restarted: the image behind its tag may have been loaded anew,
// which changes nothing in the Deployment itself. It does not wait.
func (c *Cluster) ApplyDeployment(ctx context.Context, namespace, name string, manifest ...string) error {
	_, err := c.Client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if ignoreNotFound(err) != nil {
		return fmt.Errorf("look for deployment %s/%s: %w", namespace, name, err)
	}
	existed := !apierrors.IsNotFound(err)
	// What a person changed by hand gives way: these are the demo's and the tests' own objects.
	args := append([]string{"-n", namespace, "apply", "--server-side", "--force-conflicts"}, manifest...)
	if _, err := c.Kubectl(ctx, args...); err != nil {
		return err
	}
	if !existed {
		return nil
	}
	_, err = c.Kubectl(ctx, "-n", namespace, "rollout", "restart", "deployment/"+name)
	return err
}
