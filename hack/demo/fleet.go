package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/test/e2e/live"
)

// What the samples are called and select by.
const (
	fleetSample      = "config/samples/routerfleet.yaml"
	engineDeployment = "engine"
	engineSelector   = "app=engine"
	enginePort       = 8000
)

func (d *demo) nodes(ctx context.Context) (int, error) {
	list, err := d.cluster.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("list nodes: %w", err)
	}
	return len(list.Items), nil
}

// installOperator applies CRD, RBAC and manager.
func (d *demo) installOperator(ctx context.Context) (string, error) {
	if err := d.cluster.InstallOperator(ctx); err != nil {
		return "", err
	}
	if err := d.waitForDeployment(ctx, live.OperatorNamespace, live.OperatorDeployment); err != nil {
		return "", err
	}
	return "CRD, RBAC and manager are in namespace " + live.OperatorNamespace, nil
}

// startEngines runs the engine doubles of the sample in a namespace that asks for restricted pods.
func (d *demo) startEngines(ctx context.Context) (string, error) {
	if _, err := d.cluster.Kubectl(ctx, "label", "--overwrite", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted"); err != nil {
		return "", err
	}
	if err := d.cluster.ApplyDeployment(ctx, namespace, engineDeployment, "-f", "config/samples/engines.yaml"); err != nil {
		return "", err
	}
	if err := d.waitForDeployment(ctx, namespace, engineDeployment); err != nil {
		return "", err
	}
	pods, err := d.cluster.Pods(ctx, namespace, engineSelector)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d engine doubles serve model demo-model", len(pods)), nil
}

func (d *demo) waitForDeployment(ctx context.Context, namespace, name string) error {
	return d.wait(ctx, name, func(ctx context.Context) (bool, string, error) {
		deployment, err := d.cluster.Client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, "", err
		}
		done, status := rolledOut(deployment)
		return done, status, nil
	})
}

func rolledOut(d *appsv1.Deployment) (bool, string) {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	s := d.Status
	done := s.ObservedGeneration >= d.Generation && s.UpdatedReplicas == want && s.AvailableReplicas == want && s.Replicas == want
	return done, fmt.Sprintf("%d of %d ready", s.AvailableReplicas, want)
}

// createFleet applies the sample and shows how the fleet comes up, in the words of its status. The baseline's fleet comes
// up beside it, so that nobody waits for it later.
func (d *demo) createFleet(ctx context.Context) (string, error) {
	if _, err := d.cluster.Kubectl(ctx, "-n", namespace, "apply", "--server-side", "--force-conflicts", "-f", fleetSample); err != nil {
		return "", err
	}
	if err := d.createBaseline(ctx); err != nil {
		return "", err
	}
	for _, name := range []string{fleetName, baselineName} {
		if err := d.waitForFleet(ctx, name); err != nil {
			return "", err
		}
	}
	if err := d.waitForEvents(ctx); err != nil {
		return "", err
	}
	fleet, err := d.fleet(ctx, fleetName)
	if err != nil {
		return "", err
	}
	return "RouterFleet " + fleetName + ": " + fleetLine(fleet) + ", each router reads each engine's KV events", nil
}

func (d *demo) waitForFleet(ctx context.Context, name string) error {
	return d.wait(ctx, "fleet "+name, func(ctx context.Context) (bool, string, error) {
		fleet, err := d.fleet(ctx, name)
		if err != nil {
			return false, "", err
		}
		return fleetReady(fleet), fleetLine(fleet), nil
	})
}

// waitForEvents waits until every router of the fleet is subscribed to every engine.
func (d *demo) waitForEvents(ctx context.Context) error {
	return d.wait(ctx, "KV events", func(ctx context.Context) (bool, string, error) {
		engines, err := d.cluster.Pods(ctx, namespace, engineSelector)
		if err != nil {
			return false, "", err
		}
		routers, err := d.cluster.Pods(ctx, namespace, v1alpha1.LabelFleet+"="+fleetName)
		if err != nil {
			return false, "", err
		}
		up := 0
		for _, pod := range routers {
			metrics, err := d.cluster.RouterMetrics(ctx, namespace, pod.Name)
			if err != nil {
				return false, "", err
			}
			sum, _ := metrics.Sum("routerfleet_kv_subscriptions_up", nil)
			up += int(sum)
		}
		want := len(routers) * len(engines)
		return up == want, fmt.Sprintf("%d of %d subscriptions are up", up, want), nil
	})
}

func (d *demo) fleet(ctx context.Context, name string) (*v1alpha1.RouterFleet, error) {
	var fleet v1alpha1.RouterFleet
	if err := d.objects.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &fleet); err != nil {
		return nil, fmt.Errorf("get routerfleet %s: %w", name, err)
	}
	return &fleet, nil
}

// fleetReady asks for the Ready condition of this very generation.
func fleetReady(fleet *v1alpha1.RouterFleet) bool {
	for _, conditionType := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionRollingOut} {
		c := apimeta.FindStatusCondition(fleet.Status.Conditions, conditionType)
		if c == nil || c.ObservedGeneration != fleet.Generation {
			return false
		}
	}
	return apimeta.IsStatusConditionTrue(fleet.Status.Conditions, v1alpha1.ConditionReady) &&
		apimeta.IsStatusConditionFalse(fleet.Status.Conditions, v1alpha1.ConditionRollingOut)
}

// fleetLine is a fleet in one line.
func fleetLine(fleet *v1alpha1.RouterFleet) string {
	engines := "engines not asked yet"
	if w := fleet.Status.Workers; w != nil && w.Discovered != nil {
		engines = fmt.Sprintf("%d engines found", *w.Discovered)
	}
	state := "not planned yet"
	if c := apimeta.FindStatusCondition(fleet.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		state = fmt.Sprintf("Ready=%s (%s)", c.Status, c.Reason)
	}
	return fmt.Sprintf("%d of %d routers ready, %s, %s", value(fleet.Status.ReadyReplicas), value(fleet.Spec.Replicas), engines, state)
}

func value(n *int32) int32 {
	if n == nil {
		return 0
	}
	return *n
}
