package app

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	"github.com/routerfleet/routerfleet/router/index"
)

// seedDigits is the length of a seed: 64 bits in hexadecimal.
const seedDigits = 16

// hashSeed reads the fleet's secret seed of block keys, or draws one where there is none. It is read once: another seed
// would make every key of the index a stranger.
func hashSeed(path string, log *slog.Logger) (index.Seed, error) {
	if path != "" {
		seed, err := readSeed(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return seed, err
		}
		log.Warn("there is no hash seed: block keys are made with a random one, and no other replica can use them", "file", path)
	} else {
		log.Info("block keys are made with a random seed: no other replica can use them", "flag", "--hash-seed-file")
	}
	var random [8]byte
	_, _ = rand.Read(random[:]) // crypto/rand does not fail, it ends the process
	return index.Seed(binary.BigEndian.Uint64(random[:])), nil
}

// readSeed never repeats what the file holds.
func readSeed(path string) (index.Seed, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 4*seedDigits))
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", path, err)
	}
	raw, err := hex.DecodeString(strings.TrimSpace(string(data)))
	if err != nil || len(raw) != seedDigits/2 {
		return 0, fmt.Errorf("%s must hold %d hexadecimal digits", path, seedDigits)
	}
	return index.Seed(binary.BigEndian.Uint64(raw)), nil
}
