// Package httpapi puts an engine's surfaces in front of the engine double: the
// OpenAI routes that SGLang and vLLM share, SGLang's own, metrics, and a control
// API that reads what happened and switches faults on.
//
// One Server serves one model. A generation request goes: record it (recorder),
// take its share of the active faults (faultset), parse and judge it (parse,
// chat, completions, generate), plan the answer (plan), submit it to the engine
// and render what comes back (render, sse). Its invariant: a request whose client
// has gone holds no place in the engine, because every wait is bound to the
// request's context.
package httpapi
