package main

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
)

// selfCommand returns the command line that runs this program again, so that advice can be pasted:
// what the user typed, which is saga for one that was found in PATH, or go run and the package.
func selfCommand(arg0 string) string {
	info, _ := debug.ReadBuildInfo()
	return selfCommandOf(arg0, os.Getenv("GOCACHE"), info)
}

func selfCommandOf(arg0, cache string, info *debug.BuildInfo) string {
	switch {
	case arg0 == "":
		return "saga"
	case builtByRun(arg0, cache) && info != nil:
		if v := info.Main.Version; v != "" && v != "(devel)" && !strings.Contains(v, "+") {
			return "go run " + quote(info.Path+"@"+v)
		}
		return "go run " + quote(info.Path) // in a clone
	}
	return quote(arg0)
}

// builtByRun reports whether arg0 is where go run puts its programs: a temporary
// directory of the build, or the build cache (Go 1.24).
func builtByRun(arg0, cache string) bool {
	if !filepath.IsAbs(arg0) {
		return false
	}
	in := filepath.ToSlash(filepath.Dir(arg0))
	return temporaryDir.MatchString(in) ||
		cachedDir.MatchString(in) && (strings.Contains(in, "/go-build/") || cache != "" && strings.HasPrefix(in, filepath.ToSlash(cache)+"/"))
}

var (
	temporaryDir = regexp.MustCompile(`/go-build[0-9]*/b[0-9]+/exe$`)
	cachedDir    = regexp.MustCompile(`/[0-9a-f]{2}/[0-9a-f]{64}-d$`)
)

var harmless = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./\\~-]+$`)

// quote writes a word so that a shell takes it as one.
func quote(word string) string {
	if harmless.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
