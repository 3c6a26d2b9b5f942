//go:build unix

package keyfile

import "golang.org/x/sys/unix"

// version tells two versions of a file apart. A file that was put in the place of
// another has another inode; any change, also of the mode or by a program that sets
// the time of modification, has another time of change.
type version struct {
	device, inode           uint64
	size, modified, changed int64
}

func versionOf(path string) (version, error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return version{}, err
	}
	return version{uint64(s.Dev), uint64(s.Ino), s.Size, s.Mtim.Nano(), s.Ctim.Nano()}, nil
}
