package models

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```")

func TestTheModelsFilesOfTheDocsAreRead(t *testing.T) {
	text, err := os.ReadFile("../../docs/models.md")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, block := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
		if !strings.HasPrefix(block[1], "models:") {
			continue
		}
		checked++
		if _, err := Parse([]byte(block[1])); err != nil {
			t.Errorf("%v\n%s", err, block[1])
		}
	}
	if checked < 2 {
		t.Errorf("found %d models files in the docs: the pattern is broken", checked)
	}
}
