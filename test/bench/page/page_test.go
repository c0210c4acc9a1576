package page

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOnlyTheMeasuredPartOfTheCommandIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	other := begin("other") + "kept\n" + endMeasured
	if err := os.WriteFile(path, []byte("# Before\n"+other+begin("mine")+"old\n"+endMeasured+"After\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Replace(path, "mine", "new\n"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := "# Before\n" + other + begin("mine") + "\nnew\n\n" + endMeasured + "After\n"; string(got) != want {
		t.Errorf("page\n got %q\nwant %q", got, want)
	}
}

func TestAPageWithoutItsMarksIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("text\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := Replace(path, "mine", "x")
	if err == nil || !strings.Contains(err.Error(), "measured by: mine") {
		t.Errorf("got %v, want an error that names the missing line", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "text\n" {
		t.Errorf("page %q", got)
	}
}
