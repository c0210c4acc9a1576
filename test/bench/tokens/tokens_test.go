package main

import (
	"strings"
	"testing"
	"time"
)

func TestAReportJudgesByTheTarget(t *testing.T) {
	report := func(whole time.Duration) string {
		return markdown([]figures{{Row: row{Kind: kindPrompt, Model: "m"}, Prompt: prompt{Whole: quantiles{P50: whole}}}})
	}
	if text := report(wholeTarget); strings.Contains(text, "missed") || !strings.Contains(text, "5000 us** at p50 with a warm word cache (target: at most 5ms, met)") {
		t.Errorf("at the target:\n%s", text)
	}
	if text := report(wholeTarget + 1); !strings.Contains(text, "missed") {
		t.Errorf("beyond the target:\n%s", text)
	}
}

func TestACorpusIsReadWhereverTheProgramRuns(t *testing.T) {
	for _, kind := range []string{prose, code} {
		texts, err := corpus(kind)
		if err != nil || len(texts) < 10 {
			t.Errorf("%d texts of %s: %v", len(texts), kind, err)
		}
	}
	t.Chdir(t.TempDir())
	if _, err := corpus(prose); err == nil {
		t.Error("a corpus was found outside the repository")
	}
}
