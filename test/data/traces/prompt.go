package traces

// BlockSize is the tokens of one block of the trace.
const BlockSize = 512

// The tokens of blocks are ids in [firstToken, firstToken+tokenRange): above the
// special tokens and below the end of every vocabulary in use (BERT's, the
// smallest, has 30,522), so that a prompt is valid for any engine.
const (
	firstToken = 1_000
	tokenRange = 29_000
)

// seed makes our tokens ours; any constant would do, and changing it changes
// every prompt.
const seed = 0x526f75746572466c // "RouterFl"

// AppendBlock appends the 512 tokens of block id: token i is
// firstToken + splitmix64(seed + id·2^32 + i) mod tokenRange. The function is
// fixed for good: replays elsewhere rely on it.
func AppendBlock(tokens []uint32, id uint32) []uint32 {
	for i := range uint64(BlockSize) {
		tokens = append(tokens, firstToken+uint32(splitmix64(seed+uint64(id)<<32+i)%tokenRange))
	}
	return tokens
}

// Prompt returns the InputLength token ids of the request's prompt.
func (r Request) Prompt() []uint32 {
	tokens := make([]uint32, 0, len(r.Blocks)*BlockSize)
	for _, id := range r.Blocks {
		tokens = AppendBlock(tokens, id)
	}
	return tokens[:r.InputLength]
}

// splitmix64 is the output function of Steele, Lea and Flood's generator
// ("Fast Splittable Pseudorandom Number Generators", 2014).
func splitmix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
