package app

import "github.com/alecthomas/kong"

// Grammar is how Options read as a command line: what cmd/router parses with, and what the flag reference is generated
// from.
func Grammar() []kong.Option {
	return []kong.Option{
		kong.Name("router"),
		kong.Description("Forwards OpenAI-style requests to LLM engines. Give it engines with --worker, or let it find them with --service-discovery."),
		kong.DefaultEnvars("ROUTER"),
	}
}
