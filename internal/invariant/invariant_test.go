package invariant

import (
	"strings"
	"testing"
)

func TestCheckPanicsOnlyInBuildsThatCheck(t *testing.T) {
	defer func() {
		got := recover()
		if Enabled != (got != nil) {
			t.Fatalf("Enabled=%v, recovered %v", Enabled, got)
		}
		if got != nil && !strings.Contains(got.(string), "3 active") {
			t.Fatalf("message lost its values: %v", got)
		}
	}()
	Check(false, "%d active", 3)
}

func TestCheckIsSilentWhenTheInvariantHolds(t *testing.T) {
	Check(true, "never seen")
}
