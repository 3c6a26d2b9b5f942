//go:build unix

package state

import (
	"io/fs"
	"os"
	"syscall"
)

// isOthers reports whether a file belongs to another user.
func isOthers(info fs.FileInfo) bool {
	is, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(is.Uid) != os.Geteuid()
}
