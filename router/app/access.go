package app

import (
	"github.com/routerfleet/routerfleet/internal/signed"
	"github.com/routerfleet/routerfleet/router/proxy"
)

// access judges the token of a request for a decision table.
func (a *App) access(token string) proxy.Access {
	if a.tokens == nil || len(a.tokens.Bearers()) == 0 {
		return proxy.AccessNone
	}
	switch role, known := a.tokens.RoleOf(token); {
	case !known:
		return proxy.AccessUnknown
	case role == signed.RoleAdmin:
		return proxy.AccessAdmin
	}
	return proxy.AccessOther
}
