package children

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/routerfleet/routerfleet/api/v1alpha1"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
)

// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete

// RenderVersion is the version of the rules that turn a spec into a pod. It is
// part of the hash and pinned in the revision: an operator with newer rules goes
// on rendering old revisions by the old ones, and moves no pod by being upgraded.
// Raise it with any change to the template of an unchanged spec.
const RenderVersion = 1

// Revision is one rollout-relevant version of a fleet's spec.
type Revision struct {
	// Hash identifies the revision: 10 characters, of RenderVersion and Data.
	Hash string
	// RenderVersion the revision is pinned to.
	RenderVersion int
	// Data is the canonical JSON of the part of the spec that matters to pods,
	// without what equals the default of its RenderVersion.
	Data []byte
}

// pinned is the content of a ControllerRevision.
type pinned struct {
	RenderVersion int             `json:"renderVersion"`
	Spec          json.RawMessage `json:"spec"`
}

// RevisionOf is the revision the fleet's spec asks for. Specs that mean the same
// to a pod have the same revision: replicas, service, labels of the fleet and
// rollout settings are not in it, quantities count by value, and a default spelt
// out is no difference. An error means that no pod can be rendered from the spec;
// its text is for the user.
func RevisionOf(f *v1alpha1.RouterFleet) (Revision, error) {
	data, err := canonical(rolloutRelevant(defaulted(f).Spec))
	if err != nil {
		return Revision{}, fmt.Errorf("write revision of RouterFleet %s/%s: %w", f.Namespace, f.Name, err)
	}
	r := newRevision(RenderVersion, data)
	if _, err := podTemplate(f, r, 0, 0); err != nil {
		return Revision{}, err
	}
	return r, nil
}

// DecodeRevision reads a revision back. It refuses one whose content does not
// have the hash its label claims, and one of a newer operator.
func DecodeRevision(cr *appsv1.ControllerRevision) (Revision, error) {
	fail := func(err error) (Revision, error) {
		return Revision{}, fmt.Errorf("read ControllerRevision %s/%s: %w", cr.Namespace, cr.Name, err)
	}
	var p pinned
	if err := json.Unmarshal(cr.Data.Raw, &p); err != nil {
		return fail(err)
	}
	if p.RenderVersion < 1 || p.RenderVersion > RenderVersion {
		return fail(fmt.Errorf("renderVersion %d is not between 1 and %d: use an operator that knows it, or delete the revision", p.RenderVersion, RenderVersion))
	}
	spec, err := expand(p.Spec)
	if err != nil {
		return fail(err)
	}
	data, err := canonical(spec)
	if err != nil {
		return fail(err)
	}
	r := newRevision(p.RenderVersion, data)
	if want := cr.Labels[v1alpha1.LabelRevision]; want != r.Hash {
		return fail(fmt.Errorf("its content has hash %s, its label says %q: it was edited; delete it", r.Hash, want))
	}
	return r, nil
}

// Spec is the part of a spec the revision pins, with the defaults of its
// RenderVersion. Undo writes these fields back.
func (r Revision) Spec() (v1alpha1.RouterFleetSpec, error) { return expand(r.Data) }

// ControllerRevision pins a revision. number orders the history: the highest is
// the one the spec asked for last.
func ControllerRevision(f *v1alpha1.RouterFleet, r Revision, number int64) *appsv1ac.ControllerRevisionApplyConfiguration {
	raw := append([]byte(`{"renderVersion":`+strconv.Itoa(r.RenderVersion)+`,"spec":`), r.Data...)
	labels := merged(FleetLabels(f.Name), map[string]string{v1alpha1.LabelRevision: r.Hash})
	return appsv1ac.ControllerRevision(RevisionName(f.Name, r.Hash), f.Namespace).
		WithLabels(labels).
		WithOwnerReferences(ownerReference(f)).
		WithData(runtime.RawExtension{Raw: append(raw, '}')}).
		WithRevision(number)
}

func newRevision(renderVersion int, data []byte) Revision {
	return Revision{
		Hash:          hash([]byte(strconv.Itoa(renderVersion)), data),
		RenderVersion: renderVersion,
		Data:          data,
	}
}

// hashAlphabet has no vowels and nothing that looks alike, as Kubernetes' own
// generated names: 27^10 is about 2^47 revisions.
const hashAlphabet = "bcdfghjklmnpqrstvwxz2456789"

// hash is 10 characters of the SHA-256 of the parts, a zero byte between them.
func hash(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write(p)
		h.Write([]byte{0})
	}
	sum := h.Sum(nil)[:10]
	for i, b := range sum {
		sum[i] = hashAlphabet[int(b)%len(hashAlphabet)]
	}
	return string(sum)
}
