package models

// Limits of a models file. They are those of RouterFleet.spec.models, so that what the API server admits a router reads.
const (
	// maxFileBytes bounds the file: 32 models with everything at its limit are below 512 KiB.
	maxFileBytes = 1 << 20
	// maxModels bounds the names that serve or divide.
	maxModels = 32
	// maxAliases bounds the aliases of one model.
	maxAliases = 8
	// maxTargets bounds the targets of one split.
	maxTargets = 8
	// maxNameBytes bounds a name or an alias; names are repository names or paths.
	maxNameBytes = 253
	// maxSelectorBytes bounds a selector as text.
	maxSelectorBytes = 4096
	// maxPathBytes bounds a path of a tokenizer.
	maxPathBytes = 1024
	// maxWeight bounds a target's weight: a thousandth is the finest share.
	maxWeight = 1000
)
