// Package version holds the version that was stamped into a program when it was
// built.
package version

// Version is the version of this program, "dev" when nobody stamped one. The
// image builder sets it with
//
//	-ldflags "-X github.com/routerfleet/routerfleet/internal/version.Version=..."
var Version = "dev"
