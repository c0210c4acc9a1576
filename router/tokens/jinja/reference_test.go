package jinja

import (
	_ "embed"
	"encoding/json"
	"slices"
	"testing"
)

//go:embed testdata/reference.json
var referenceFile []byte

// notOurs are templates that Jinja renders and Parse or Render refuses: what no chat template of a known model does. The
// router must know that it does not know.
var notOurs = []string{
	"{{ s.format(1) }}{{ '%s-%d' % ('a', 1) }}",
	"{{ '%02d' % 5 }}",
	"{{ ''.__class__ }}",
	"{{ s.encode }}",
	"{{ cycler }}",
	"{{ d['zeta'] }}{{ d.zeta }}{{ d.items }}",
}

// What Jinja 2 renders is rendered alike; where it refuses, there is an error. An error of ours where it renders is allowed
// for notOurs only.
func TestTextEqualsThatOfJinja(t *testing.T) {
	var file struct {
		Vars  json.RawMessage
		Cases []struct {
			Template string
			Text     *string
			Error    string
		}
	}
	if err := json.Unmarshal(referenceFile, &file); err != nil {
		t.Fatal(err)
	}
	vars := decode(t, file.Vars).(*Dict)
	rendered, refused := 0, 0
	for _, c := range file.Cases {
		got, err := renderString(c.Template, vars)
		switch {
		case slices.Contains(notOurs, c.Template):
			if err == nil && (c.Text == nil || got != *c.Text) {
				t.Errorf("%s\n renders %q", c.Template, got)
			}
		case c.Text == nil:
			refused++
			if err == nil {
				t.Errorf("%s\n renders %q, Jinja says %s", c.Template, got, c.Error)
			}
		case err != nil:
			t.Errorf("%s\n %v\n want %q", c.Template, err, *c.Text)
		case got != *c.Text:
			t.Errorf("%s\n  got %q\n want %q", c.Template, got, *c.Text)
		default:
			rendered++
		}
	}
	if rendered < 90 || refused < 40 {
		t.Errorf("%d cases rendered and %d refused: the file is not what it was", rendered, refused)
	}
}

func renderString(source string, vars *Dict) (string, error) {
	template, err := Parse(source)
	if err != nil {
		return "", err
	}
	text, err := template.Render(nil, vars, Options{})
	return string(text), err
}
