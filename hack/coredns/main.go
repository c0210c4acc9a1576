// Command coredns is CoreDNS with the five plugins the local cluster needs:
// errors, health, ready, cache and kubernetes. The stock binary links some sixty
// more, among them clients of cloud providers.
//
// It is a module of its own, with the module versions of the project's go.mod
// where both need a module, so that the build cache is shared.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	// Plugins register themselves; the order they act in is set by main.
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	dnsserver.Directives = []string{"errors", "health", "ready", "cache", "kubernetes"}
	coremain.Run()
}
