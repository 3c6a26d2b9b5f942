//go:build unix

package codec

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
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

// lentByRoot reports whether a file is root's, and others than root may do nothing but read it as members of a group to
// which this process belongs, or by an access list, which shows as a right of root's own group. Kubernetes mounts
// secrets so for the fsGroup of a pod, and systemd credentials for the user of a service.
func lentByRoot(info fs.FileInfo) bool {
	is, ok := info.Sys().(*syscall.Stat_t)
	if !ok || is.Uid != 0 || info.Mode().Perm()&0o077 != lentMode {
		return false
	}
	groups, err := os.Getgroups()
	return is.Gid == 0 || int(is.Gid) == os.Getegid() || err == nil && slices.Contains(groups, int(is.Gid))
}
