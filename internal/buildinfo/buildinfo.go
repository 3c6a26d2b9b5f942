// Package buildinfo says what a binary was built from.
package buildinfo

import "runtime/debug"

// Version is the version of the main module, or "(devel)" if it is not known.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
