package bpe

const (
	// maxFileBytes bounds a tokenizer.json. The largest in use, with 200,000 to 260,000 tokens, have 28 to 34 MB.
	maxFileBytes = 64 << 20
	// maxVocab bounds ids and the vocabulary. Models in use stay below 2^18.
	maxVocab = 1 << 20
	// maxMerges bounds the merges; files have about two a token at most (Llama 3: 280,147 for 128,000).
	maxMerges = 2 * maxVocab
	// maxTokenBytes bounds one token's text. The longest of Llama 3 and Qwen 3 are runs of 128 spaces.
	maxTokenBytes = 4096
	// maxAddedTokens bounds added_tokens. Llama 3 has 256, files with placeholders for other media some thousands.
	maxAddedTokens = 1 << 16
	// maxSteps bounds the members of a normalizer, pre-tokenizer or post-processor, nested ones included.
	maxSteps = 16
	// maxFrameTokens bounds what a post-processor adds to a sequence.
	maxFrameTokens = 64

	// MaxTextBytes is the longest text that is encoded: some millions of tokens, more than any model's context.
	MaxTextBytes = 32 << 20
	// MaxWordBytes is the longest word (a run of letters, digits, signs or spaces that the pattern does not cut) that is
	// encoded. The work for a word of n bytes grows with n log n; text has no such words, and attacks do.
	MaxWordBytes = 64 << 10
	// MaxTokens is the longest result: beyond every model's context. Hostile text has a token every two bytes, and what an
	// engine will not compute needs no keys.
	MaxTokens = 1 << 20
	// MaxLongWork bounds the merging of words of more than shortWord bytes in one text, in bytes times the doublings of
	// their length. Languages written without spaces have words of some hundred bytes: megabytes of them fit. Of words of
	// 64 KiB six do, about as much work as eight MB of prose.
	MaxLongWork = 4 << 20
	// MaxSlowBytes bounds what is normalized character by character, at some hundred bytes of memory each, because of long
	// rows of combining marks. Text has none but in jokes, and they are short.
	MaxSlowBytes = 1 << 20
)

// limits are those that tests lower, for a file at the real ones takes them minutes.
type limits struct{ fileBytes, vocab, merges, addedTokens int }

var fileLimits = limits{maxFileBytes, maxVocab, maxMerges, maxAddedTokens}

const (
	// DefaultWordCacheBytes keeps some 60,000 words.
	DefaultWordCacheBytes = 16 << 20
	// DefaultMessageCacheBytes keeps some 600 chats of 12,000 tokens each, and more where they share messages.
	DefaultMessageCacheBytes = 64 << 20
)
