package main

import (
	"io"

	"github.com/routerfleet/routerfleet/controllers/manager"
)

// managerFlags writes the flag reference of the manager.
func managerFlags(w io.Writer) error {
	var grammar struct {
		manager.Options
	}
	return flagPage(w, "manager", &grammar, manager.Grammar())
}
