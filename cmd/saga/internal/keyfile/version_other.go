//go:build !unix

package keyfile

import "os"

// version tells two versions of a file apart, as far as package os lets us.
type version struct{ size, modified int64 }

func versionOf(path string) (version, error) {
	info, err := os.Stat(path)
	if err != nil {
		return version{}, err
	}
	return version{info.Size(), info.ModTime().UnixNano()}, nil
}
