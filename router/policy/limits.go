package policy

import "time"

const (
	// maxTokens bounds token counts that come from outside: far beyond any context, and far from overflow in sums
	// weighted by percent.
	maxTokens = 1 << 40

	// maxWeightPercent bounds the weights of the cost function.
	maxWeightPercent = 10_000

	// maxPredictTTL bounds how long predicted credit lives. Engines store a prompt's blocks when its prefill ends;
	// beyond minutes the prediction is a guess.
	maxPredictTTL = 10 * time.Minute

	// maxPredictions bounds the records of predicted credit, one a (block, rank): some 60 bytes each. The figure is
	// the upstream router's.
	maxPredictions = 1 << 20

	// maxRosters bounds the models whose candidates are kept resolved. Beyond it the table starts anew.
	maxRosters = 64

	// maxExplained bounds the candidates listed in a decision table; the chosen one is always among them.
	maxExplained = 256
)
