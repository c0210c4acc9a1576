package repocheck

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link       = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading    = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	fence      = regexp.MustCompile("(?ms)^```.*?^```")
	notAnchor  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	makeCall   = regexp.MustCompile("(?m)(?:^|[`$ ])make ((?:[a-z0-9]+-)*[a-z0-9]+)\\b")
	makeTarget = regexp.MustCompile(`(?m)^([a-z0-9-]+):`)
)

// anchors returns what a link may name behind "#", by GitHub's rule: lower case,
// punctuation gone, spaces to dashes.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, match := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		name := notAnchor.ReplaceAllString(strings.ToLower(match[1]), "")
		found[strings.ReplaceAll(name, " ", "-")] = true
	}
	return found
}

func TestEveryRelativeLinkInTheDocsLeadsSomewhere(t *testing.T) {
	checked := 0
	for _, page := range files(t, ".md") {
		text := fence.ReplaceAllString(read(t, page), "")
		for _, match := range link.FindAllStringSubmatch(text, -1) {
			target, anchor, _ := strings.Cut(match[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			checked++
			path := page
			if target != "" {
				path = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s links to %s: %v", page, match[1], err)
				continue
			}
			if anchor != "" && !anchors(read(t, path))[anchor] {
				t.Errorf("%s links to %s, which has no heading %q", page, match[1], anchor)
			}
		}
	}
	if checked < 20 {
		t.Errorf("found %d relative links in all the docs: the pattern is broken", checked)
	}
}

func TestEveryMakeCommandInTheDocsExists(t *testing.T) {
	targets := map[string]bool{}
	for _, match := range makeTarget.FindAllStringSubmatch(read(t, "Makefile"), -1) {
		targets[match[1]] = true
	}
	checked := 0
	for _, page := range files(t, ".md") {
		for _, block := range codeIn(read(t, page)) {
			for _, match := range makeCall.FindAllStringSubmatch(block, -1) {
				checked++
				if !targets[match[1]] {
					t.Errorf("%s says %q; the Makefile has no such target", page, "make "+match[1])
				}
			}
		}
	}
	if checked == 0 {
		t.Error("the docs name no make command: the pattern is broken")
	}
}

var inline = regexp.MustCompile("`[^`\n]+`")

// codeIn returns the fenced blocks and inline code of a page; prose may say
// "make sure".
func codeIn(text string) []string {
	blocks := fence.FindAllString(text, -1)
	return append(blocks, inline.FindAllString(fence.ReplaceAllString(text, ""), -1)...)
}
