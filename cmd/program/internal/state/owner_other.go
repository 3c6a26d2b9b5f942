//go:build !unix

package state

import "io/fs"

// isOthers reports nothing here: owners are not users' numbers.
func isOthers(fs.FileInfo) bool { return false }
