package children

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/routerfleet/routerfleet/api/v1alpha1"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;patch;delete

const (
	// modelsPath is where the ConfigMap with the models file is mounted, modelsKey the
	// file's key in it.
	modelsPath = "/etc/routerfleet/models"
	modelsKey  = "models.yaml"
	// tokenizersPath has a directory for each ConfigMap with a tokenizer.
	tokenizersPath = "/etc/routerfleet/tokenizers"

	modelsVolumeName = "routerfleet-models"
	// tokenizerVolumePrefix precedes a number: a ConfigMap's name may be too long for
	// that of a volume.
	tokenizerVolumePrefix = "routerfleet-tokenizer-"
	// ownedVolumePrefix is that of all volumes that are not the user's, ownedPath where
	// they are mounted.
	ownedVolumePrefix = "routerfleet-"
	ownedPath         = "/etc/routerfleet/"
)

// modelsFile is the text of a models file, under the name of its ConfigMap. The name
// has the hash of the text: pods of an older revision, also ones that heal or an undo
// brings back, find the text they were rolled out with.
type modelsFile struct {
	name string
	text string
}

// modelEntry is a model as the router's --models-file has it.
type modelEntry struct {
	Name      string                 `json:"name"`
	Aliases   []string               `json:"aliases,omitempty"`
	Selector  string                 `json:"selector,omitempty"`
	Tokenizer *modelTokenizer        `json:"tokenizer,omitempty"`
	Split     []v1alpha1.ModelTarget `json:"split,omitempty"`
}

type modelTokenizer struct {
	Path string `json:"path"`
}

// modelsOf renders the models file of a spec, nil without models.
func modelsOf(fleet string, models []v1alpha1.ModelSpec) (*modelsFile, error) {
	if len(models) == 0 {
		return nil, nil
	}
	entries := make([]modelEntry, 0, len(models))
	for i := range models {
		m := &models[i]
		entry := modelEntry{Name: m.Name, Aliases: m.Aliases, Split: m.Split}
		if s := &m.Selector; len(s.MatchLabels)+len(s.MatchExpressions) > 0 {
			text, err := selectorText(s)
			if err != nil {
				return nil, fmt.Errorf("models[%d].selector: %w", i, err)
			}
			entry.Selector = text
		}
		if path := tokenizerPath(&m.Tokenizer); path != "" {
			entry.Tokenizer = &modelTokenizer{path}
		}
		entries = append(entries, entry)
	}
	text, err := yaml.Marshal(map[string][]modelEntry{"models": entries})
	if err != nil {
		return nil, fmt.Errorf("write models file: %w", err)
	}
	return &modelsFile{ModelsName(fleet, hash(text)), string(text)}, nil
}

// tokenizerPath is where the router finds a tokenizer, empty without one.
func tokenizerPath(t *v1alpha1.ModelTokenizer) string {
	if t.ConfigMap != "" {
		return tokenizersPath + "/" + t.ConfigMap
	}
	return t.Path
}

// ModelsFile is the ConfigMap with the models file of a revision; false if its spec has
// no models. It never changes: another file has another name.
func ModelsFile(f *v1alpha1.RouterFleet, r Revision) (Child, bool, error) {
	spec, err := r.Spec()
	if err != nil {
		return Child{}, false, fmt.Errorf("render revision %s of RouterFleet %s/%s: %w", r.Hash, f.Namespace, f.Name, err)
	}
	file, err := modelsOf(f.Name, spec.Models)
	if file == nil || err != nil {
		return Child{}, false, err
	}
	return Child{"ConfigMap", file.name, corev1ac.ConfigMap(file.name, f.Namespace).
		WithLabels(FleetLabels(f.Name)).
		WithOwnerReferences(ownerReference(f)).
		WithImmutable(true).
		WithData(map[string]string{modelsKey: file.text})}, true, nil
}

// modelsVolumes mounts the models file and the tokenizers.
func modelsVolumes(pod *corev1.PodTemplateSpec, in podInput) {
	if in.models == nil {
		return
	}
	mountConfigMap(pod, modelsVolumeName, in.models.name, modelsPath)
	var names []string
	for i := range in.spec.Models {
		if name := in.spec.Models[i].Tokenizer.ConfigMap; name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for i, name := range slices.Compact(names) {
		mountConfigMap(pod, tokenizerVolumePrefix+strconv.Itoa(i), name, tokenizersPath+"/"+name)
	}
}

func mountConfigMap(pod *corev1.PodTemplateSpec, volume, name, path string) {
	pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
		Name: volume,
		VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: name},
			DefaultMode:          ptr.To(filesMode),
		}},
	})
	router(pod).VolumeMounts = append(router(pod).VolumeMounts, corev1.VolumeMount{Name: volume, MountPath: path, ReadOnly: true})
}

// filesMode lets the group of the pod read, nobody else.
const filesMode int32 = 0o440

// IsModelsFile tells whether an object is the models file of some revision of a fleet.
func IsModelsFile(f *v1alpha1.RouterFleet, object metav1.Object) bool {
	return IsOwned(f, object) && strings.HasPrefix(object.GetName(), ModelsName(f.Name, ""))
}
