// Package tokenizer is the toy tokenizer of the engine double.
//
// It is bytes: token id b is byte b, for the 256 values of a byte, so that
// encoding is stable, prefix-preserving (the tokens of a prefix of a text are a
// prefix of its tokens) and reversible. A generated answer sent back as text in
// the next turn therefore has the tokens it was generated as, and hits the cache
// as it would in a real engine. Two special ids mark chat messages. Larger ids
// are valid in token-id prompts up to VocabSize and stand for nothing.
package tokenizer

// Special token ids.
const (
	MessageStart uint32 = 256 // opens a chat message; its role follows
	MessageEnd   uint32 = 257 // closes a chat message
)

// VocabSize bounds token ids in prompts: ids are 0 to VocabSize-1. It is the
// vocabulary of Gemma 3 (262,144), the largest in common use, so that prompts
// made for any real model are accepted.
const VocabSize = 1 << 18

// Message is one turn of a chat.
type Message struct {
	Role    string
	Content string
}

// Encode returns the tokens of text, one a byte.
func Encode(text string) []uint32 {
	return appendText(make([]uint32, 0, len(text)), text)
}

// Chat renders messages with the double's chat template and encodes them: each
// message is MessageStart, role, newline, content, MessageEnd, newline, and the
// prompt ends with the opening of the assistant's turn.
func Chat(messages []Message) []uint32 {
	size := 16
	for _, m := range messages {
		size += len(m.Role) + len(m.Content) + 4
	}
	tokens := make([]uint32, 0, size)
	for _, m := range messages {
		tokens = append(tokens, MessageStart)
		tokens = appendText(tokens, m.Role+"\n"+m.Content)
		tokens = append(tokens, MessageEnd, '\n')
	}
	tokens = append(tokens, MessageStart)
	return appendText(tokens, "assistant\n")
}

// Decode returns the text of tokens; ids that are no byte have none.
func Decode(tokens []uint32) string {
	text := make([]byte, 0, len(tokens))
	for _, token := range tokens {
		if token < 256 {
			text = append(text, byte(token))
		}
	}
	return string(text)
}

func appendText(tokens []uint32, text string) []uint32 {
	for i := range len(text) {
		tokens = append(tokens, uint32(text[i]))
	}
	return tokens
}
