package program

import (
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
)

// selfCommand returns the command line that runs this program again, so that advice can be pasted:
// what the user typed, or go run and the package.
func selfCommand(arg0 string) string {
	info, _ := debug.ReadBuildInfo()
	return selfCommandOf(arg0, info)
}

func selfCommandOf(arg0 string, info *debug.BuildInfo) string {
	if info == nil || !builtByRun.MatchString(filepath.ToSlash(arg0)) {
		return quote(arg0)
	}
	if v := info.Main.Version; v != "" && v != "(devel)" && !strings.Contains(v, "+") {
		return "go run " + quote(info.Path+"@"+v)
	}
	return "go run " + quote(info.Path) // in a clone
}

// builtByRun finds where go run puts its programs: a temporary directory of the build, or the build
// cache, unless that has a name of its own.
var builtByRun = regexp.MustCompile(`/go-build([0-9]*/b[0-9]+/exe|/[0-9a-f]{2}/[0-9a-f]{64}-d)/[^/]+$`)

var harmless = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./\\~-]+$`)

// quote writes a word so that a shell takes it as one.
func quote(word string) string {
	if harmless.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
