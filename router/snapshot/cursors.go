package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/routerfleet/routerfleet/router/cursor"
	"github.com/routerfleet/routerfleet/router/index"
)

// table2 is the JSON answer to cursors_only where format 2 is accepted.
type table2 struct {
	Format int       `json:"format"`
	Ready  bool      `json:"producer_ready"`
	Since  time.Time `json:"seedableSince,omitzero"`
	Empty  []rank2   `json:"empty_ranks"`
	Ranks  []entry2  `json:"ranks"`
}

// rank2 names a rank.
type rank2 struct {
	Model     string       `json:"model"`
	Scheme    index.Scheme `json:"scheme"`
	BlockSize int          `json:"blockSize"`
	Bigram    bool         `json:"bigram,omitempty"`
	SeedID    hex64        `json:"seedID,omitzero"`
	PodUID    string       `json:"podUID"`
	URL       string       `json:"url"`
	DP        int32        `json:"rank"`
}

// entry2 is a rank with its cursor.
type entry2 struct {
	rank2
	Incarnation incarnation2 `json:"incarnation"`
	Seq         int64        `json:"seq"`
	Time        int64        `json:"time"` // nanoseconds since 1970, as the engine said; 0 is unknown
	Hash        hex64        `json:"hash"`
	Proof       string       `json:"proof"`
	Partial     bool         `json:"partial"`
	WalkedTo    int64        `json:"walkedTo"`
	SeededFrom  string       `json:"seededFrom"`
	Digest      hex64        `json:"digest"`
	Version     int          `json:"digestVersion"`
	Blocks      int64        `json:"blocks"`
	Exportable  bool         `json:"exportable"`
}

// incarnation2 is an engine's life. Start is null while it is unknown, and empty for an engine that names none.
type incarnation2 struct {
	Worker string  `json:"worker"`
	Start  *string `json:"start"`
}

// hex64 is 64 bits as text: JSON numbers hold 53.
type hex64 uint64

// MarshalText writes 16 hex digits.
func (h hex64) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(h)), nil }

// UnmarshalText reads them.
func (h *hex64) UnmarshalText(b []byte) error {
	v, err := strconv.ParseUint(string(b), 16, 64)
	*h = hex64(v)
	return err
}

func newRank2(k SectionKey, w Worker, dp int32) rank2 {
	return rank2{k.Model, k.Scheme, k.BlockSize, k.Bigram, hex64(k.SeedID), w.PodUID, w.URL, dp}
}

func (r *rank2) section() SectionKey {
	return SectionKey{r.Model, r.Scheme, r.BlockSize, r.Bigram, uint64(r.SeedID)}
}

// cursors2 answers cursors_only: a live read, every rank with a cursor.
func cursors2(src Source) ([]byte, error) {
	t := table2{Format: format2, Ready: src.Ready(), Since: src.SeedableSince().UTC(), Empty: []rank2{}, Ranks: []entry2{}}
	for _, s := range src.Sections() {
		for _, r := range s.Rows {
			if r.begun() {
				t.Ranks = append(t.Ranks, newEntry2(s.Key, &r))
			}
			if !r.begun() || r.Blocks == 0 {
				t.Empty = append(t.Empty, newRank2(s.Key, r.Worker, r.DP))
			}
		}
	}
	b, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("encode cursors: %w", err)
	}
	return b, nil
}

func newEntry2(k SectionKey, r *Row) entry2 {
	c := r.Cursor
	e := entry2{
		rank2: newRank2(k, r.Worker, r.DP), Incarnation: incarnation2{Worker: r.Worker.Name()}, Seq: c.Seq, Time: int64(c.Time),
		Hash: hex64(c.Hash), Proof: c.Proof.String(), Partial: c.Partial, WalkedTo: r.WalkedTo, SeededFrom: r.SeededFrom,
		Digest: hex64(r.Digest), Version: r.DigestVersion, Blocks: r.Blocks, Exportable: r.Exportable,
	}
	if c.Incarnation.Start.Known {
		e.Incarnation.Start = &c.Incarnation.Start.ID
	}
	return e
}

// decodeTable2 reads an answer to cursors_only, one rank at a time: a list of nothing costs as much as it has bytes.
func decodeTable2(body []byte) (*Table, error) {
	dec := json.NewDecoder(bytes.NewReader(body))
	t := &Table{Complete: true}
	if err := t.decode(dec); err != nil {
		return nil, reject(Malformed, "the cursors cannot be read: %v", err)
	}
	if t.Format != format2 {
		return nil, reject(UnknownFormat, "the cursors are of format %d", t.Format)
	}
	return t, nil
}

func (t *Table) decode(dec *json.Decoder) error {
	if err := expectDelim(dec, '{'); err != nil {
		return err
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		switch key {
		case "format":
			err = dec.Decode(&t.Format)
		case "producer_ready":
			err = dec.Decode(&t.Ready)
		case "seedableSince":
			err = dec.Decode(&t.SeedableSince)
		case "ranks":
			err = eachOf(dec, func(e *entry2) { t.Rows = append(t.Rows, e.row()) })
		case "empty_ranks":
			err = eachOf(dec, func(e *rank2) { t.Empty = append(t.Empty, TableRank{e.section(), Worker{e.PodUID, e.URL}, e.DP}) })
		default:
			err = dec.Decode(&json.RawMessage{})
		}
		if err != nil {
			return err
		}
	}
	return expectDelim(dec, '}')
}

func expectDelim(dec *json.Decoder, want json.Delim) error {
	got, err := dec.Token()
	if err == nil && got != want {
		err = fmt.Errorf("%v stands where %v belongs", got, want)
	}
	return err
}

// eachOf decodes the values of an array, at most maxRows.
func eachOf[T any](dec *json.Decoder, f func(*T)) error {
	if err := expectDelim(dec, '['); err != nil {
		return err
	}
	for n := 0; dec.More(); n++ {
		if n == maxRows {
			return fmt.Errorf("a list of more than %d ranks", maxRows)
		}
		var v T
		if err := dec.Decode(&v); err != nil {
			return err
		}
		f(&v)
	}
	return expectDelim(dec, ']')
}

func (e *entry2) row() TableRow {
	r := Row{
		Worker: Worker{e.PodUID, e.URL}, DP: e.DP, WalkedTo: e.WalkedTo, SeededFrom: e.SeededFrom,
		Digest: uint64(e.Digest), DigestVersion: e.Version, Blocks: e.Blocks, Exportable: e.Exportable,
	}
	c := &r.Cursor
	c.Incarnation.Worker = r.Worker.Name()
	if e.Incarnation.Start != nil {
		c.Incarnation.Start = cursor.Start{Known: true, ID: *e.Incarnation.Start}
	}
	c.Seq, c.Hash, c.Partial, c.Proof = e.Seq, uint64(e.Hash), e.Partial, proofAt(e.Seq, proofNamed(e.Proof))
	setInt(&c.Time, e.Time)
	return TableRow{e.section(), r}
}

// proofNamed reads a proof; one this release does not know proves nothing.
func proofNamed(s string) cursor.Proof {
	for p := cursor.Origin; p <= cursor.Untrusted; p++ {
		if p.String() == s {
			return p
		}
	}
	return cursor.Untrusted
}
