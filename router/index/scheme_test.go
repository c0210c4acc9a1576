package index

import (
	"testing"
)

func block(tokens ...uint32) []byte {
	var b []byte
	for _, t := range tokens {
		b = AppendToken(b, t)
	}
	return b
}

func TestChunksOfUnlikeBlocksDiffer(t *testing.T) {
	const seed = Seed(0x5eed)
	blocks := map[string][]byte{
		"tokens":                   block(1, 2, 3, 4),
		"other tokens":             block(1, 2, 4, 3),
		"a LoRA":                   AppendSuffix(block(1, 2, 3, 4), "ab", nil),
		"a longer LoRA":            AppendSuffix(block(1, 2, 3, 4), "abc", nil),
		"text":                     AppendSuffix(block(1, 2, 3, 4), "", Extra(nil).Text("abc")),
		"the same as bytes":        AppendSuffix(block(1, 2, 3, 4), "", Extra(nil).Bytes([]byte("abc"))),
		"the same as two texts":    AppendSuffix(block(1, 2, 3, 4), "", Extra(nil).Text("ab").Text("c")),
		"the same in a list":       AppendSuffix(block(1, 2, 3, 4), "", Extra(nil).List(1).Text("abc")),
		"two lists of one":         AppendSuffix(block(1, 2, 3, 4), "", Extra(nil).List(1).Text("ab").List(1).Text("c")),
		"a list of two":            AppendSuffix(block(1, 2, 3, 4), "", Extra(nil).List(2).Text("ab").Text("c")),
		"LoRA and text":            AppendSuffix(block(1, 2, 3, 4), "ab", Extra(nil).Text("c")),
		"an integer":               AppendSuffix(block(1, 2, 3, 4), "", Extra(nil).Int(7)),
		"nil":                      AppendSuffix(block(1, 2, 3, 4), "", Extra(nil).Nil()),
		"a value of another type":  AppendSuffix(block(1, 2, 3, 4), "", Extra(nil).Other([]byte{0xc3})),
		"the other boolean":        AppendSuffix(block(1, 2, 3, 4), "", Extra(nil).Other([]byte{0xc2})),
		"a short block":            block(1, 2, 3),
		"a block with a zero more": block(1, 2, 3, 0),
	}
	seen := map[Chunk]string{}
	for name, b := range blocks {
		c := seed.Chunk(b)
		if other, ok := seen[c]; ok {
			t.Errorf("%s and %s have one chunk", name, other)
		}
		seen[c] = name
		if c == Seed(0x5eee).Chunk(b) {
			t.Errorf("%s has one chunk under two seeds", name)
		}
	}
}

func TestAKeyIdentifiesItsWholePrefix(t *testing.T) {
	const seed = Seed(7)
	a, b := seed.Chunk(block(1)), seed.Chunk(block(2))
	root := seed.RootKey("m", "")
	keys := map[Key]bool{root: true}
	for _, k := range []Key{root.Next(a), root.Next(b), root.Next(a).Next(b), root.Next(b).Next(a), root.Next(a).Next(a)} {
		if keys[k] {
			t.Errorf("key %x stands for two prefixes", uint64(k))
		}
		keys[k] = true
	}
}

func TestModelAndSaltAreToldApartAtTheRoot(t *testing.T) {
	const seed = Seed(7)
	roots := map[Key][2]string{}
	for _, c := range [][2]string{{"m", ""}, {"ms", ""}, {"m", "s"}, {"", "ms"}, {"", ""}} {
		k := seed.RootKey(c[0], c[1])
		if other, ok := roots[k]; ok {
			t.Errorf("%q and %q have one root", c, other)
		}
		roots[k] = c
	}
}

// The values are pinned: replicas of two releases exchange keys.
func TestTheTokensSchemeDoesNotChange(t *testing.T) {
	const seed = Seed(0x0123456789abcdef)
	chunk := seed.Chunk(AppendSuffix(block(1, 2, 3, 4), "adapter", Extra(nil).Text("image").Int(-3)))
	root := seed.RootKey("model", "tenant-a")
	got := [3]uint64{uint64(chunk), uint64(root), uint64(root.Next(chunk))}
	want := [3]uint64{0x1423a76c1899a913, 0x395552049c10eeaa, 0x5d33fb2c47b90fde}
	if got != want {
		t.Errorf("chunk, root, key are %#x, want %#x", got, want)
	}
	if got, want := seed.ID(), "deb80f3b94fa7113"; got != want {
		t.Errorf("seed id is %s, want %s", got, want)
	}
}
