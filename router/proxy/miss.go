package proxy

// missReason is why a prompt has no block keys: a key equals the engine's or is not made.
type missReason uint8

const (
	missNone missReason = iota
	// missText and missChat: words of which nobody knows the tokens.
	missText
	missChat
	// missBatch: several prompts in one request, each with a prefix of its own.
	missBatch
	// missLoRA: an adapter in a hash scheme that does not tell adapters apart.
	missLoRA
	// missMedia: images, audio or embeddings, which the engine's hashes contain or replace tokens by.
	missMedia
	// missOptions: an option that keeps the engine from reading its cache, changes the tokens, or names blocks otherwise.
	missOptions
	// missUnreadable: no prompt, ids or salt that the router understands, or beyond its limits.
	missUnreadable
	// missScheme: the keys of this hash scheme cannot be computed.
	missScheme
	// missParity: the model's files are known to make other tokens than its engines, and no engine told.
	missParity
	// missEngine: an engine could have told the tokens, and did not in time.
	missEngine
	// missRefused: the chat template refuses the chat, as the engine will.
	missRefused
	// missTooLong: beyond what is tokenized.
	missTooLong
	// missBusy: long, while as many long prompts as may be at once were being tokenized.
	missBusy

	missEnd
)

var missNames = [missEnd]string{"none", "text", "chat", "batch", "lora", "media", "options", "unreadable", "scheme", "parity", "engine", "refused", "too_long", "busy"}

// String is the metric label.
func (m missReason) String() string {
	if m >= missEnd {
		m = missUnreadable
	}
	return missNames[m]
}

// unkeyedMembers are body members, of vLLM and SGLang, that part the engine's view of the prompt from the token ids in it.
// What a client can say here must not make an index look wrong: such a request has no keys, and is not observed.
var unkeyedMembers = map[string]missReason{
	"lora_path":        missLoRA, // SGLang; vLLM takes an adapter for a model
	"image_data":       missMedia,
	"video_data":       missMedia,
	"audio_data":       missMedia,
	"multi_modal_data": missMedia,
	"input_embeds":     missMedia,
	"prompt_embeds":    missMedia,

	"echo":                      missOptions, // with logprobs, vLLM computes the whole prompt
	"prompt_logprobs":           missOptions, // the same
	"logprob_start_len":         missOptions, // SGLang: from there on nothing is taken from the cache
	"skip_reading_prefix_cache": missOptions,
	"truncate_prompt_tokens":    missOptions,
	"suffix":                    missOptions, // SGLang: prompt and suffix are put together by a template of its own
	"session_params":            missOptions, // the prompt is appended to a session's
	"extra_key":                 missOptions, // a salt of another name
	"data_parallel_rank":        missOptions, // SGLang: the client chooses the rank, whatever the router's header says
	"routed_dp_rank":            missOptions, // the same
	"kv_transfer_params":        missOptions, // vLLM: blocks come from another engine
	"bootstrap_room":            missOptions, // SGLang: the same
}

// asks tells whether a member's value switches something on: engines take null, false, -1 and nothing for absent.
func asks(value []byte) bool {
	switch string(value) {
	case "", "null", "false", "-1", `""`, "[]", "{}":
		return false
	}
	return true
}
