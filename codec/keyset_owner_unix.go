//go:build unix

package codec

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives the file at path the owner and the group of another one.
func keepOwner(path string, other fs.FileInfo) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	was, known := other.Sys().(*syscall.Stat_t)
	if !ok || !known || is.Uid == was.Uid && is.Gid == was.Gid {
		return nil
	}
	if err := os.Lchown(path, int(was.Uid), int(was.Gid)); err != nil && is.Uid != was.Uid {
		return fmt.Errorf("the keyset belongs to another user, who could not read it afterwards: change it as that user: %w", err)
	}
	return nil // another group may not read it anyway
}
