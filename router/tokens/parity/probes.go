package parity

import "github.com/routerfleet/routerfleet/router/tokens/remote"

// probeText has what tokenizers differ in: case, digits, spaces, line ends, scripts, combining marks, emoji, code, and text
// that looks like special tokens.
const probeText = "The quick brown fox's 1234567 jumps,  over\tthe lazy dog!\n\n  fn main() { println!(\"{}\", x_1 += 0.5e-3); }\r\n" +
	"Größe, naïve, cafe\u0301, Ελληνικά, русский, עברית, العربية, हिन्दी, 日本語のテキスト, 中文 한국어 👩‍👩‍👧 🇨🇭\n" +
	"<|endoftext|> <|im_start|> <|begin_of_text|> </s> [INST] <think> \u00a0\u2003end   "

const probeChat = `{"messages":[{"role":"system","content":"You are a careful assistant."},{"role":"user","content":"What is 17 + 4?\n"},` +
	`{"role":"assistant","content":"21"},{"role":"user","content":"And in hexadecimal? \u00e9\u00df <|im_end|>"}]}`

// probePlainChat is for templates that refuse a system message.
const probePlainChat = `{"messages":[{"role":"user","content":"What is 17 + 4?\n"}]}`

const probeTools = `{"messages":[{"role":"user","content":"What is the weather in Bern?"}],"tools":[{"type":"function","function":{"name":"weather",` +
	`"description":"The weather of a city & its \"surroundings\".","parameters":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","default":1}},"required":["city"]}}}]}`

// probe is a prompt that engines are asked about. One whose text the router's own files refuse to make tells nothing.
type probe struct {
	kind   Kind
	prompt remote.Prompt
}

var probes = []probe{
	{Text, remote.Prompt{Text: probeText}},
	{Text, remote.Prompt{Text: probeText, Bare: true}},
	{Chat, remote.Prompt{Chat: []byte(probeChat)}},
	{Chat, remote.Prompt{Chat: []byte(probePlainChat)}},
	{Tools, remote.Prompt{Chat: []byte(probeTools)}},
}
