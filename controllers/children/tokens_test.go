package children

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func TestTokensAreLongRandomAndDifferent(t *testing.T) {
	secret, changed, err := Tokens(fleet(), nil, rand.Reader)
	if err != nil || !changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
	want := map[string]int{TokenPeer: 32, TokenAdmin: 32, TokenView: 32, HashSeed: 8}
	seen := map[string]bool{}
	for key, value := range secret.Data {
		raw, err := hex.DecodeString(string(value))
		if err != nil || len(raw) != want[key] {
			t.Errorf("%s has %d bytes, want %d: %v", key, len(raw), want[key], err)
		}
		seen[string(value)] = true
	}
	if len(secret.Data) != len(want) || len(seen) != len(want) {
		t.Errorf("got %d keys with %d values, want %d", len(secret.Data), len(seen), len(want))
	}
	if !IsOwned(fleet(), secret) {
		t.Error("the Secret would stay when the fleet goes")
	}
}

func TestTokensFillsOnlyWhatIsMissing(t *testing.T) {
	full, _, err := Tokens(fleet(), nil, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	full.Data[TokenPeerPrevious] = []byte("old")
	full.Data["mine"] = []byte("x")
	if _, changed, err := Tokens(fleet(), full, failing{}); changed || err != nil {
		t.Errorf("a full Secret: changed %v, %v; want neither a change nor a read of randomness", changed, err)
	}
	partial := full.DeepCopy()
	delete(partial.Data, TokenView)
	partial.Data[TokenAdmin] = nil // an empty token would let anybody in
	got, changed, err := Tokens(fleet(), partial, rand.Reader)
	if err != nil || !changed {
		t.Fatalf("changed %v, %v", changed, err)
	}
	for _, key := range []string{TokenPeer, TokenPeerPrevious, HashSeed, "mine"} {
		if !bytes.Equal(got.Data[key], full.Data[key]) {
			t.Errorf("%s was touched", key)
		}
	}
	if len(got.Data[TokenView]) != 64 || len(got.Data[TokenAdmin]) != 64 {
		t.Errorf("missing keys were not filled: %v", slices.Sorted(maps.Keys(got.Data)))
	}
	if diff := cmp.Diff([]byte(nil), partial.Data[TokenAdmin]); diff != "" {
		t.Error("the caller's Secret was changed")
	}
}

func TestTokensOfAnEmptySecretAreFilled(t *testing.T) {
	got, changed, err := Tokens(fleet(), &corev1.Secret{}, rand.Reader)
	if err != nil || !changed || len(got.Data) != 4 {
		t.Errorf("got %d keys, changed %v, %v", len(got.Data), changed, err)
	}
}

func TestWithoutRandomnessThereAreNoTokens(t *testing.T) {
	secret, changed, err := Tokens(fleet(), nil, failing{})
	if !errors.Is(err, io.ErrUnexpectedEOF) || secret != nil || changed {
		t.Errorf("got %v, %v, %v", secret, changed, err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
