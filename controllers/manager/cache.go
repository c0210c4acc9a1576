package manager

import (
	"github.com/routerfleet/routerfleet/api/v1alpha1"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// childKinds are the kinds that are watched. Predicates would not keep foreign
// objects out of memory, a selector does.
func childKinds() []client.Object {
	return []client.Object{
		&corev1.Pod{},
		&corev1.ConfigMap{},
		&corev1.Service{},
		&corev1.ServiceAccount{},
		&appsv1.ReplicaSet{},
		&appsv1.ControllerRevision{},
		&rbacv1.Role{},
		&rbacv1.RoleBinding{},
	}
}

// cacheOptions holds fleets, and the children that carry our label.
func cacheOptions(watchNamespaces []string) (cache.Options, error) {
	ours, err := labels.NewRequirement(v1alpha1.LabelFleet, selection.Exists, nil)
	if err != nil {
		return cache.Options{}, err
	}
	selector := labels.NewSelector().Add(*ours)
	options := cache.Options{
		ByObject:         map[client.Object]cache.ByObject{},
		DefaultTransform: cache.TransformStripManagedFields(),
	}
	for _, kind := range childKinds() {
		options.ByObject[kind] = cache.ByObject{Label: selector}
	}
	if len(watchNamespaces) > 0 {
		options.DefaultNamespaces = map[string]cache.Config{}
		for _, ns := range watchNamespaces {
			options.DefaultNamespaces[ns] = cache.Config{}
		}
	}
	return options, nil
}

// clientOptions reads Secrets from the API server: tokens are read rarely and
// never lie around in memory.
func clientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}}
}
