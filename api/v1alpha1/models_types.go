package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ModelSpec is a name that requests may use, and what stands behind it: workers, or a
// split between other models.
//
// +kubebuilder:validation:XValidation:rule="!has(self.split) || self.split.exists(t, t.weight > 0)",message="split needs a weight above 0",fieldPath=".split"
// +kubebuilder:validation:XValidation:rule="!has(self.split) || self.split.exists(t, t.model == self.name) || !(has(self.selector) || has(self.tokenizer))",message="a model whose split does not lead to itself has no workers: selector and tokenizer belong to its targets",fieldPath=".split"
type ModelSpec struct {
	// name is what the engines call the model (--served-model-name), or a name of the
	// routers alone if its split does not lead to itself.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[!-~]([ -~]*[!-~])?$`
	Name string `json:"name,omitempty"`

	// aliases are further names for the model. Engines are sent its name.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[!-~]([ -~]*[!-~])?$`
	Aliases []string `json:"aliases,omitempty"`

	// selector says which workers may serve the model, by the labels that
	// workers.plain.selector finds them by; static workers have labels of their own.
	// Unset takes every worker that reports the name.
	// +optional
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && self.matchLabels.size() > 0) || (has(self.matchExpressions) && self.matchExpressions.size() > 0)",message="selector must not be empty: leave it out to take every worker"
	Selector metav1.LabelSelector `json:"selector,omitzero"`

	// tokenizer is what prompts are read with.
	// +optional
	Tokenizer ModelTokenizer `json:"tokenizer,omitzero"`

	// split sends requests for this name to other models by weight. The same prompt
	// always goes to the same one.
	// +optional
	// +listType=map
	// +listMapKey=model
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Split []ModelTarget `json:"split,omitempty"`
}

// ModelTokenizer says where the tokenizer of a model is.
//
// +kubebuilder:validation:XValidation:rule="has(self.path) != has(self.configMap)",message="tokenizer needs one of path and configMap"
type ModelTokenizer struct {
	// path is a directory in the router's container, of the image or of a volume in
	// podTemplate.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/[ -~]+$`
	Path string `json:"path,omitempty"`

	// configMap names a ConfigMap of this namespace whose keys are the files of the
	// directory. Routers read it when they start: give changed files another name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	ConfigMap string `json:"configMap,omitempty"`
}

// ModelTarget is one side of a split.
type ModelTarget struct {
	// model is the name of another model of the fleet, or of the one that is split.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Model string `json:"model,omitempty"`

	// weight is the side's share of the sum of all weights; 0 sends it nothing.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Weight *int32 `json:"weight,omitempty"`
}

// IsServed tells whether workers serve the model under its name: always, unless it is
// split and no side is itself.
func (m *ModelSpec) IsServed() bool {
	for _, t := range m.Split {
		if t.Model == m.Name {
			return true
		}
	}
	return len(m.Split) == 0
}
