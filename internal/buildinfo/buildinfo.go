// Package buildinfo says what a binary was built from.
package buildinfo

import "runtime/debug"

// version is what a release says of itself, by the linker: -X github.com/mcpsaga/mcpsaga/internal/buildinfo.version=v1.2.3.
var version string

// Version is what the linker was given, or the version of the main module, or "(devel)" if neither is known.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// Library is the version of the module of this package, unless that is the main module, or is not known, or a release was
// built with the library beside it: then it is empty.
func Library() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, dep := range info.Deps {
		if dep.Path == "github.com/mcpsaga/mcpsaga" && (version == "" || dep.Version != "(devel)") {
			return dep.Version
		}
	}
	return ""
}
