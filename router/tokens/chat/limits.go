package chat

const (
	// maxDepth bounds nesting of a request's members. Python's json, which engines read with, gives up near 1,000.
	maxDepth = 512
	// maxValues bounds the values of a request. They take some hundred bytes each, whatever few bytes they are written in: a
	// body of 8 MiB would take half a gigabyte. A chat of maxMessages messages has three a message.
	maxValues = 1 << 18
	// maxMessages bounds a chat.
	maxMessages = 1 << 16
	// maxConfigBytes bounds tokenizer_config.json and its like: those of models with many added tokens have 1 MB.
	maxConfigBytes = 8 << 20
	// maxTemplates bounds the named templates of one model.
	maxTemplates = 16
)
