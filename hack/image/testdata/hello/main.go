// Command hello is a program to make test images of.
package main

import (
	"fmt"

	"github.com/routerfleet/routerfleet/internal/version"
)

func main() { fmt.Println("hello", version.Version) }
