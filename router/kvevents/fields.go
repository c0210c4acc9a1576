package kvevents

import (
	"encoding/binary"

	"github.com/tinylib/msgp/msgp"
)

type tag uint8

const (
	tagUnknown tag = iota
	tagStored
	tagRemoved
	tagCleared
)

func tagOf(name []byte) tag {
	switch string(name) {
	case "BlockStored":
		return tagStored
	case "BlockRemoved":
		return tagRemoved
	case "AllBlocksCleared":
		return tagCleared
	}
	return tagUnknown
}

// Which fields an event had.
const (
	hasHashes = 1 << iota
	hasBlockSize
	hasLoRAID
)

// fields are what one event says, as far as it was read. Slices of bytes alias the payload; hashes are in the batch, from
// first on.
type fields struct {
	batch *Batch
	first int

	have int
	tag  tag

	form       Form
	parent     Hash
	parentForm Form // NoForm without parent
	tokens     []byte
	extra      []byte
	loraName   []byte
	salt       []byte
	blockSize  int64
	loraID     int64
	group      int32
	window     int32
	medium     Medium
	remote     bool
	kind       GroupKind
}

func (f *fields) reset(b *Batch) { *f = fields{batch: b, first: len(b.hashes), group: NoGroup} }

// field reads the value of one field and gives what follows it.
type field func(f *fields, p []byte) (rest []byte, err error)

// storedFields and removedFields are the positions after the tag in the array form.
var (
	storedFields = [...]field{
		(*fields).readHashes, (*fields).readParent, (*fields).readTokens, (*fields).readBlockSize, (*fields).readLoRAID,
		(*fields).readMedium, (*fields).readLoRAName, (*fields).readExtra, (*fields).readGroup, (*fields).readKind,
		(*fields).readWindow, (*fields).readLocality,
	}
	removedFields = [...]field{(*fields).readHashes, (*fields).readMedium, (*fields).readGroup, (*fields).readLocality}
)

// loraNamePosition is where older SGLang put metadata of its own; see readArray.
const loraNamePosition = 6

// readArray reads [tag, field, ...]. Trailing fields may be missing, and there may be more than we know.
func (f *fields) readArray(p []byte) ([]byte, error) {
	n, p, err := arrayOf(p)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, errShape
	}
	name, p, err := textOf(p)
	if err != nil {
		return nil, err
	}
	f.tag = tagOf(name)
	var known []field
	switch f.tag {
	case tagStored:
		known = storedFields[:]
	case tagRemoved:
		known = removedFields[:]
	case tagCleared, tagUnknown:
	}
	for i := range n - 1 {
		if i == loraNamePosition && f.tag == tagStored && !isText(p) && !msgp.IsNil(p) {
			known = nil // a variant whose positions from here on mean something else
		}
		if i < len(known) {
			p, err = known[i](f, p)
		} else {
			p, err = skip(p)
		}
		if err != nil {
			return nil, err
		}
	}
	return p, nil
}

// readMap reads {"type": tag, name: field, ...}, in any order.
func (f *fields) readMap(p []byte) ([]byte, error) {
	n, p, err := mapOf(p)
	if err != nil {
		return nil, err
	}
	for range n {
		var name []byte
		if name, p, err = textOf(p); err != nil {
			return nil, err
		}
		if p, err = f.named(name, p); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (f *fields) named(name, p []byte) ([]byte, error) {
	switch string(name) {
	case "type":
		return f.readTag(p)
	case "block_hashes":
		return f.readHashes(p)
	case "parent_block_hash":
		return f.readParent(p)
	case "token_ids":
		return f.readTokens(p)
	case "block_size":
		return f.readBlockSize(p)
	case "lora_id":
		return f.readLoRAID(p)
	case "medium":
		return f.readMedium(p)
	case "lora_name":
		return f.readLoRAName(p)
	case "cache_salt":
		return f.readSalt(p)
	case "extra_keys":
		return f.readExtra(p)
	case "group_idx":
		return f.readGroup(p)
	case "kv_cache_spec_kind":
		return f.readKind(p)
	case "kv_cache_spec_sliding_window":
		return f.readWindow(p)
	case "locality":
		return f.readLocality(p)
	}
	return skip(p)
}

func (f *fields) readTag(p []byte) ([]byte, error) {
	name, rest, err := textOf(p)
	f.tag = tagOf(name)
	return rest, err
}

// readHashes reads a list of block hashes, all of one form.
func (f *fields) readHashes(p []byte) ([]byte, error) {
	if f.have&hasHashes != 0 {
		return nil, errShape
	}
	f.have |= hasHashes
	n, p, err := arrayOf(p)
	if err != nil {
		return nil, err
	}
	if n > maxEventHashes || len(f.batch.hashes)+n > maxBatchHashes {
		return nil, errTooLarge
	}
	for range n {
		var h Hash
		var form Form
		if h, form, p, err = hashOf(p); err != nil {
			return nil, err
		}
		if f.form != NoForm && form != f.form {
			return nil, errShape
		}
		f.form = form
		f.batch.hashes = append(f.batch.hashes, h)
	}
	return p, nil
}

// hashOf reads one block hash: an integer, or at least eight bytes of which the last eight count.
func hashOf(p []byte) (Hash, Form, []byte, error) {
	if len(p) > 0 && p[0] >= 0xc4 && p[0] <= 0xc6 {
		b, rest, err := msgp.ReadBytesZC(p)
		if err != nil {
			return 0, NoForm, nil, errTorn
		}
		if len(b) < 8 {
			return 0, NoForm, nil, errShape
		}
		return Hash(binary.BigEndian.Uint64(b[len(b)-8:])), BytesForm, rest, nil
	}
	bits, rest, err := bitsOf(p)
	return Hash(bits), IntegerForm, rest, err
}

func (f *fields) readParent(p []byte) (rest []byte, err error) {
	if msgp.IsNil(p) {
		return p[1:], nil
	}
	f.parent, f.parentForm, rest, err = hashOf(p)
	return rest, err
}

// readTokens keeps where the tokens are. What they are is looked at when the block size is known, if at all: an oversized
// list is passed over like any other.
func (f *fields) readTokens(p []byte) ([]byte, error) {
	f.tokens = p
	return skip(p)
}

func (f *fields) tokenCount() (int, error) {
	if len(f.tokens) == 0 || msgp.IsNil(f.tokens) {
		return 0, nil
	}
	n, _, err := arrayOf(f.tokens)
	return n, err
}

func (f *fields) readBlockSize(p []byte) (rest []byte, err error) {
	f.have |= hasBlockSize
	f.blockSize, rest, err = integerOf(p, 0, maxBlockTokens)
	return rest, err
}

func (f *fields) readLoRAID(p []byte) (rest []byte, err error) {
	if msgp.IsNil(p) {
		return p[1:], nil
	}
	f.have |= hasLoRAID
	f.loraID, rest, err = integerOf(p, -1<<31, 1<<62)
	return rest, err
}

func (f *fields) readMedium(p []byte) ([]byte, error) {
	name, rest, err := optionalText(p)
	if name != nil {
		f.medium = mediumOf(name)
	}
	return rest, err
}

// readLocality reads vLLM's LOCAL or REMOTE: a remote block is not in any memory of this engine.
func (f *fields) readLocality(p []byte) ([]byte, error) {
	place, rest, err := optionalText(p)
	f.remote = string(place) == "REMOTE"
	return rest, err
}

func (f *fields) mediumOrPlace() Medium {
	if f.remote {
		return MediumExternal
	}
	return f.medium
}

func (f *fields) readLoRAName(p []byte) (rest []byte, err error) {
	f.loraName, rest, err = optionalText(p)
	return rest, err
}

func (f *fields) readSalt(p []byte) (rest []byte, err error) {
	f.salt, rest, err = optionalText(p)
	return rest, err
}

// readExtra keeps where the extra keys are; see readTokens.
func (f *fields) readExtra(p []byte) ([]byte, error) {
	f.extra = p
	return skip(p)
}

func (f *fields) readGroup(p []byte) ([]byte, error) {
	if msgp.IsNil(p) {
		return p[1:], nil
	}
	g, rest, err := integerOf(p, 0, maxGroup)
	f.group = int32(g)
	return rest, err
}

func (f *fields) readKind(p []byte) ([]byte, error) {
	name, rest, err := optionalText(p)
	if name != nil {
		f.kind = groupKindOf(name)
	}
	return rest, err
}

func (f *fields) readWindow(p []byte) ([]byte, error) {
	if msgp.IsNil(p) {
		return p[1:], nil
	}
	w, rest, err := integerOf(p, 0, 1<<31-1)
	f.window = int32(w)
	if f.kind == GroupUnspecified && w > 0 {
		f.kind = GroupWindow
	}
	return rest, err
}
