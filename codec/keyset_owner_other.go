//go:build !unix

package codec

import "io/fs"

// keepOwner does nothing: here a new file inherits from its directory who may read it.
func keepOwner(string, fs.FileInfo) error { return nil }

// lentByRoot is false: here the mode of a file says nothing about who may read it.
func lentByRoot(fs.FileInfo) bool { return false }
