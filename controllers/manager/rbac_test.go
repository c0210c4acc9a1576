package manager

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/routerfleet/routerfleet/api/v1alpha1"
	"github.com/routerfleet/routerfleet/controllers/children"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// roles are the ClusterRole and the Role of the generated file.
func roles(t testing.TB) (cluster rbacv1.ClusterRole, own rbacv1.Role) {
	t.Helper()
	raw, err := os.ReadFile("../../config/rbac/role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(strings.TrimPrefix(string(raw), "---\n"), "---\n")
	if len(documents) != 2 {
		t.Fatalf("found %d documents, want a ClusterRole and a Role", len(documents))
	}
	if err := yaml.UnmarshalStrict([]byte(documents[0]), &cluster); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(documents[1]), &own); err != nil {
		t.Fatal(err)
	}
	return cluster, own
}

// verbs are what the rules allow, as "group/resource verb".
func verbs(rules []rbacv1.PolicyRule) []string {
	var out []string
	for _, r := range rules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					out = append(out, fmt.Sprintf("%s/%s %s", group, resource, verb))
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// A new verb is a decision: it must be made here too.
func TestTheOperatorMayDoExactlyThis(t *testing.T) {
	var want []string
	may := func(resource string, verbs ...string) {
		for _, v := range verbs {
			want = append(want, resource+" "+v)
		}
	}
	read := []string{"get", "list", "watch"}
	may("routerfleet.io/routerfleets", read...)
	may("routerfleet.io/routerfleets/status", "patch")
	may("/pods", read...)
	may("/secrets", "get", "create", "update")
	for _, applied := range []string{
		"/configmaps", "/services", "/serviceaccounts", "rbac.authorization.k8s.io/roles", "rbac.authorization.k8s.io/rolebindings",
		"apps/replicasets", "apps/controllerrevisions",
	} {
		may(applied, append(read, "create", "patch")...)
	}
	may("/configmaps", "delete")
	may("apps/replicasets", "delete")
	may("apps/controllerrevisions", "delete")
	may("events.k8s.io/events", "create", "patch")
	may("discovery.k8s.io/endpointslices", read...) // held to be granted, not used
	slices.Sort(want)

	cluster, own := roles(t)
	if got := verbs(cluster.Rules); !slices.Equal(got, want) {
		t.Errorf("ClusterRole allows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	wantOwn := []string{"/events create", "/events patch", "coordination.k8s.io/leases create", "coordination.k8s.io/leases get", "coordination.k8s.io/leases update"}
	if got := verbs(own.Rules); !slices.Equal(got, wantOwn) {
		t.Errorf("Role allows %q, want %q", got, wantOwn)
	}
	for _, r := range own.Rules {
		if r.Resources[0] == "leases" && !slices.Contains(r.Verbs, "create") && !slices.Equal(r.ResourceNames, []string{leaseName}) {
			t.Errorf("any Lease of the namespace may be written: %+v", r)
		}
	}
}

// The API server lets nobody grant what he does not hold.
func TestTheOperatorHoldsWhatItGrantsToRouters(t *testing.T) {
	cluster, _ := roles(t)
	held := verbs(cluster.Rules)
	f := &v1alpha1.RouterFleet{ObjectMeta: metav1.ObjectMeta{Name: "f", Namespace: "n"}}
	var granted []rbacv1.PolicyRule
	for _, r := range children.Role(f).Rules {
		granted = append(granted, rbacv1.PolicyRule{APIGroups: r.APIGroups, Resources: r.Resources, Verbs: r.Verbs})
	}
	if len(granted) == 0 {
		t.Fatal("routers may do nothing: how do they find engines?")
	}
	for _, verb := range verbs(granted) {
		if !slices.Contains(held, verb) {
			t.Errorf("%s is granted and not held", verb)
		}
	}
}

// Every kind that is cached can be listed and watched.
func TestTheOperatorMayWatchWhatItCaches(t *testing.T) {
	cluster, _ := roles(t)
	held := verbs(cluster.Rules)
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range childKinds() {
		gvks, _, err := scheme.ObjectKinds(kind)
		if err != nil {
			t.Fatal(err)
		}
		resource := gvks[0].Group + "/" + strings.ToLower(gvks[0].Kind) + "s"
		for _, verb := range []string{"list", "watch"} {
			if !slices.Contains(held, resource+" "+verb) {
				t.Errorf("%s %s is needed for the cache", resource, verb)
			}
		}
	}
}
