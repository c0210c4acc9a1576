package app

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	metricRow   = regexp.MustCompile("(?m)^\\| `(routerfleet_[a-z_]+)` \\| *([a-z_, ]*?) *\\|")
	description = regexp.MustCompile(`fqName: "(routerfleet_[a-z_]+)".*constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)
)

// A dashboard is written from the table in docs/router.md: every series of a router is in it with its labels, and
// nothing that is in it is missing in the router.
func TestTheMetricsTableOfTheDocsIsTheRouters(t *testing.T) {
	text, err := os.ReadFile("../../docs/router.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string][]string{}
	for _, row := range metricRow.FindAllStringSubmatch(string(text), -1) {
		documented[row[1]] = labelList(row[2])
	}
	siblings := PeerOptions{KVPeer: []string{"http://127.0.0.1:1"}} // a router that asks has all the series there are
	a, err := New(Options{Worker: []string{"http://127.0.0.1:1"}, TokenDir: tokenDir(t), PeerOptions: siblings})
	if err != nil {
		t.Fatal(err)
	}
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		a.registry.Describe(descs)
	}()
	described := 0
	for d := range descs {
		found := description.FindStringSubmatch(d.String())
		if found == nil {
			continue // the Go runtime's and the process's own
		}
		described++
		name, labels := found[1], labelList(constNames(found[2])+","+found[3])
		want, ok := documented[name]
		if !ok {
			t.Errorf("docs/router.md does not list %s{%s}", name, strings.Join(labels, ","))
			continue
		}
		if !slices.Equal(want, labels) {
			t.Errorf("docs/router.md gives %s the labels %q, the router has %q", name, want, labels)
		}
		delete(documented, name)
	}
	if described == 0 {
		t.Fatal("the router describes no metric of its own: the pattern is broken")
	}
	for name := range documented {
		t.Errorf("docs/router.md lists %s, which the router does not have", name)
	}
}

// labelList splits a list of labels and sorts it.
func labelList(text string) []string {
	list := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	slices.Sort(list)
	return list
}

// constNames turns `a="1",b="2"` into "a,b".
func constNames(labels string) string {
	return regexp.MustCompile(`="[^"]*"`).ReplaceAllString(labels, "")
}
