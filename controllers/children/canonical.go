package children

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/routerfleet/routerfleet/api/v1alpha1"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// rolloutRelevant is the part of a spec that pods are rendered from.
func rolloutRelevant(s v1alpha1.RouterFleetSpec) v1alpha1.RouterFleetSpec {
	return v1alpha1.RouterFleetSpec{
		Image:            s.Image,
		ImagePullPolicy:  s.ImagePullPolicy,
		ImagePullSecrets: s.ImagePullSecrets,
		ModelID:          s.ModelID,
		Models:           s.Models,
		Workers:          s.Workers,
		Routing:          s.Routing,
		Index:            s.Index,
		Bootstrap:        s.Bootstrap,
		Resources:        s.Resources,
		Scheduling:       s.Scheduling,
		Drain:            s.Drain,
		PodTemplate:      s.PodTemplate,
		Rollout:          v1alpha1.RolloutSpec{RestartToken: s.Rollout.RestartToken},
	}
}

// defaultsV1 are the defaults of RenderVersion 1, frozen: a field at its default
// is left out of a revision, so that a field that a later API adds, or a default
// it changes, leaves the hashes of this version alone. An object value is one
// default as a whole.
var defaultsV1 = []struct {
	path  []string
	value any
}{
	{[]string{"imagePullPolicy"}, "IfNotPresent"},
	{[]string{"workers", "discovery"}, "Plain"},
	{[]string{"workers", "port"}, "http"},
	{[]string{"workers", "kvEvents", "mode"}, "Enabled"},
	{[]string{"workers", "kvEvents", "port"}, json.Number("5557")},
	{[]string{"routing", "policy"}, "CacheAware"},
	{[]string{"routing", "cacheAware", "hostTierPercent"}, json.Number("75")},
	{[]string{"routing", "cacheAware", "diskTierPercent"}, json.Number("25")},
	{[]string{"routing", "cacheAware", "untrustedPercent"}, json.Number("50")},
	{[]string{"routing", "cacheAware", "pileUpTokens"}, json.Number("16384")},
	{[]string{"routing", "cacheAware", "predictTTLSeconds"}, json.Number("5")},
	{[]string{"routing", "cacheAware", "prefillScalePercent"}, json.Number("100")},
	{[]string{"routing", "cacheAware", "decodeWeightPercent"}, json.Number("0")},
	{[]string{"routing", "requestTimeoutSeconds"}, json.Number("600")},
	{[]string{"routing", "staleRequestTimeoutSeconds"}, json.Number("1800")},
	{[]string{"routing", "circuitBreaker", "failureThreshold"}, json.Number("5")},
	{[]string{"routing", "circuitBreaker", "coolDownSeconds"}, json.Number("30")},
	{[]string{"index", "match"}, "Deepest"},
	{[]string{"bootstrap", "mode"}, "Peer"},
	{[]string{"bootstrap", "seedPolicy"}, "Preferred"},
	{[]string{"bootstrap", "timeoutSeconds"}, json.Number("60")},
	{[]string{"bootstrap", "fetchTimeoutSeconds"}, json.Number("120")},
	{[]string{"resources"}, map[string]any{"requests": map[string]any{"cpu": "500m", "memory": "512Mi"}}},
	{[]string{"drain", "preStopSeconds"}, json.Number("10")},
	{[]string{"drain", "terminationGracePeriodSeconds"}, json.Number("630")},
}

// plainParents only group fields: an empty one says as much as none. Inner ones
// come first.
var plainParents = [][]string{
	{"scheduling"},
	{"podTemplate", "metadata"},
	{"podTemplate"},
	{"bootstrap"},
	{"workers", "kvEvents", "hash"},
	{"workers", "kvEvents"},
	{"routing", "cacheAware"},
	{"routing", "circuitBreaker"},
	{"routing"},
	{"index"},
	{"drain"},
	{"rollout"},
}

// canonical is the JSON of a spec with sorted keys and quantities by value,
// without what is at its default.
func canonical(s v1alpha1.RouterFleetSpec) ([]byte, error) {
	copied := s.DeepCopy()
	canonicalQuantities(reflect.ValueOf(copied).Elem())
	for i := range copied.Models {
		dropEmptySelector(&copied.Models[i].Selector)
	}
	tree, err := treeOf(copied)
	if err != nil {
		return nil, err
	}
	for _, d := range defaultsV1 {
		dropEqual(tree, d.path, d.value)
	}
	for _, path := range plainParents {
		dropEqual(tree, path, map[string]any{})
	}
	return json.Marshal(tree) // map keys come out sorted
}

// dropEmptySelector makes one of empty parts the one that is not there.
func dropEmptySelector(s *metav1.LabelSelector) {
	if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		*s = metav1.LabelSelector{}
	}
}

// expand undoes canonical.
func expand(data []byte) (v1alpha1.RouterFleetSpec, error) {
	var s v1alpha1.RouterFleetSpec
	tree, err := decodeTree(data)
	if err != nil {
		return s, err
	}
	for _, d := range defaultsV1 {
		addMissing(tree, d.path, d.value)
	}
	full, err := json.Marshal(tree)
	if err != nil {
		return s, fmt.Errorf("expand revision: %w", err)
	}
	if err := json.Unmarshal(full, &s); err != nil {
		return s, fmt.Errorf("expand revision: %w", err)
	}
	return s, nil
}

func treeOf(v any) (map[string]any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write spec as JSON: %w", err)
	}
	return decodeTree(raw)
}

// decodeTree keeps numbers as they are written: a float64 would change large
// ones.
func decodeTree(raw []byte) (map[string]any, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	tree := map[string]any{}
	if err := decoder.Decode(&tree); err != nil {
		return nil, fmt.Errorf("read JSON object: %w", err)
	}
	return tree, nil
}

// dropEqual removes the value at path if it equals value, and each parent that
// has nothing left.
func dropEqual(tree map[string]any, path []string, value any) {
	key := path[0]
	if len(path) == 1 {
		if reflect.DeepEqual(tree[key], value) {
			delete(tree, key)
		}
		return
	}
	child, ok := tree[key].(map[string]any)
	if !ok {
		return
	}
	dropEqual(child, path[1:], value)
	if len(child) == 0 {
		delete(tree, key)
	}
}

// addMissing sets the value at path if there is none.
func addMissing(tree map[string]any, path []string, value any) {
	for _, key := range path[:len(path)-1] {
		child, ok := tree[key].(map[string]any)
		if !ok {
			child = map[string]any{}
			tree[key] = child
		}
		tree = child
	}
	last := path[len(path)-1]
	if _, ok := tree[last]; !ok {
		tree[last] = value
	}
}

var quantityType = reflect.TypeFor[resource.Quantity]()

// canonicalQuantities rewrites every quantity below v so that equal values are
// equal text: 2048Mi, 2Gi and 2147483648 are one, so are 0.5 and 500m.
func canonicalQuantities(v reflect.Value) {
	if v.Type() == quantityType {
		q := canonicalQuantity(v.Interface().(resource.Quantity))
		v.Set(reflect.ValueOf(q))
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			canonicalQuantities(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				canonicalQuantities(v.Field(i))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			canonicalQuantities(v.Index(i))
		}
	case reflect.Map:
		if v.Type().Elem() != quantityType {
			return
		}
		for _, key := range v.MapKeys() {
			q := canonicalQuantity(v.MapIndex(key).Interface().(resource.Quantity))
			v.SetMapIndex(key, reflect.ValueOf(q))
		}
	}
}

// canonicalQuantity chooses the notation by the value alone: binary for whole
// multiples of 1024, as memory usually is, decimal for everything else.
func canonicalQuantity(q resource.Quantity) resource.Quantity {
	format := resource.DecimalSI
	if value, ok := q.AsInt64(); ok && value != 0 && value%1024 == 0 {
		format = resource.BinarySI
	}
	same, err := resource.ParseQuantity(resource.NewDecimalQuantity(*q.AsDec(), format).String())
	if err != nil || same.Cmp(q) != 0 {
		return q // beyond 10^18 there is no suffix; String drops the exponent
	}
	return same
}
