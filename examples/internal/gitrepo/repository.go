// Package gitrepo reads git repositories for the examples: their commits and tags, and the directories
// that commits change. A repository may have been made to do harm. So git is run in such a way that it
// reads only what is below the repository's .git, runs no program that the repository's configuration
// names, and opens no connection. Most errors are for the caller of a tool to read.
package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/mcpsaga/mcpsaga/saga"
)

// Repository is a git repository under the configured root, for reading.
type Repository struct {
	// Dir is the work tree: absolute, without symbolic links.
	Dir string
	// Shallow reports whether the repository is a shallow clone, without what is older.
	Shallow bool
}

// Open finds the repository at path, relative to root. A path or a link that leads out of root is
// refused, as is a repository whose data lie elsewhere.
func Open(ctx context.Context, root, path string) (*Repository, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if path == "" {
		path = "."
	}
	if !filepath.IsLocal(path) {
		return nil, saga.Failf("The repository %q is not a path below the server's root. Give its path from there, or none for the root itself.", path)
	}
	base, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, fmt.Errorf("the root of repositories: %w", err)
	}
	if base, err = filepath.Abs(base); err != nil {
		return nil, err
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(base, path))
	if err != nil {
		return nil, saga.Failf("There is no directory %q below the server's root.", path)
	}
	if rel, err := filepath.Rel(base, dir); err != nil || !filepath.IsLocal(rel) {
		return nil, saga.Failf("The repository %q leads out of the server's root by a link. Name one that is below the root.", path)
	}
	dot := filepath.Join(dir, ".git")
	if info, err := os.Lstat(dot); err == nil && info.Mode().IsRegular() {
		return nil, saga.Failf("%q is a linked worktree or a submodule: its .git is a file that says where the repository is, perhaps outside the server's root. Name the repository itself.", path)
	} else if err != nil || !info.IsDir() {
		if path == "." {
			return nil, saga.Failf("The server's root of repositories is not a git repository itself; name one below it with the argument repo.")
		}
		return nil, saga.Failf("%q is not a git repository: it has no directory .git of its own.", path)
	}
	if elsewhere(dot) {
		return nil, saga.Failf("The git repository %q keeps its data elsewhere (links, pipes or alternates), perhaps outside the server's root.", path)
	}
	_, err = os.Lstat(filepath.Join(dot, "shallow"))
	return &Repository{Dir: dir, Shallow: err == nil}, nil
}

// elsewhere reports whether a git directory borrows from others: by links in place of its own parts, by
// alternates, or by a common directory. Pipes count as well, as git would wait for them.
func elsewhere(dir string) bool {
	for part, kind := range map[string]fs.FileMode{
		"HEAD": 0, "config": 0, "packed-refs": 0, "shallow": 0, "refs": fs.ModeDir, "refs/heads": fs.ModeDir, "refs/tags": fs.ModeDir,
		"objects": fs.ModeDir, "objects/pack": fs.ModeDir, "objects/info": fs.ModeDir,
	} {
		if info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(part))); err == nil && info.Mode().Type() != kind {
			return true
		}
	}
	for _, part := range []string{"commondir", "config.worktree", "objects/info/alternates", "objects/info/http-alternates"} {
		if _, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(part))); err == nil {
			return true
		}
	}
	return false
}

// settings keep the repository's configuration from having git run programs or read elsewhere.
var settings = []string{
	"core.bare=true", "core.fsmonitor=false", "core.hooksPath=" + os.DevNull, "core.attributesFile=" + os.DevNull,
	"protocol.allow=never", "diff.external=", "log.showSignature=false", "log.showRoot=true", "maintenance.auto=false",
}

// environment is that of git, besides PATH.
var environment = []string{
	"LC_ALL=C", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_SYSTEM=" + os.DevNull, "GIT_ATTR_NOSYSTEM=1",
	"GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0",
	"GIT_ALLOC_LIMIT=32m", // for one object: commits and directories of honest repositories are far smaller
}

// command returns git with arguments. It ends with ctx.
func (r *Repository) command(ctx context.Context, args ...string) *exec.Cmd {
	dot := filepath.Join(r.Dir, ".git")
	all := []string{"--git-dir=" + dot, "--no-pager"}
	for _, s := range settings {
		all = append(all, "-c", s)
	}
	cmd := exec.CommandContext(ctx, "git", append(all, args...)...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dot, append([]string{"PATH=" + os.Getenv("PATH")}, environment...), time.Second
	return cmd
}

// unreadable is the error for the caller of a tool when something cannot be read. If the turn was stopped,
// or git cannot be run, the error says that.
func unreadable(ctx context.Context, what string, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return saga.Fail("The server has no git, which this tool needs: ask its operator to install it.", err)
	}
	return saga.Fail(what+" cannot be read: it is missing, broken or very large. If its history was rewritten meanwhile, begin again.", err)
}
