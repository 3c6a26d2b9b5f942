package gitrepo

import (
	"bufio"
	"context"
	"errors"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Commit is a commit. Its texts are valid UTF-8, and as long as their author made them.
type Commit struct {
	Hash    string
	Parents []string
	// When is the committer's time.
	When time.Time
	// Author is the author's name.
	Author string
	// Subject is the message's first line, Body the rest.
	Subject, Body string
	// Dirs are the directories that the commit changes, if they were asked for, in order: those at the
	// root and those in them. [RootFiles] stands for files that are in none. A merge changes none.
	Dirs []string
	// tags are the names of its tags, if they were asked for.
	tags []string
}

// RootFiles stands for the files that are in no directory.
const RootFiles = "."

// Log says which commits [Repository.Log] returns.
type Log struct {
	// From is where the history begins. What is reachable from Not is left out, if it is not empty.
	From, Not string
	// Skip is how many are left out at the beginning, and Limit how many are returned at most.
	Skip, Limit int
	// NoMerges leaves merges out, and Dirs has the commits' Dirs found out.
	NoMerges, Dirs bool
}

// maxDirs is how many directories are listed of one commit.
const maxDirs = 10_000

// Log returns a commit and all that it descends from, each once, the newest first. As a commit names its
// parents by their contents, the list is the same whatever was committed meanwhile. An error is the last
// element.
func (r *Repository) Log(ctx context.Context, l Log) iter.Seq2[*Commit, error] {
	args := []string{"--skip=" + strconv.Itoa(l.Skip), "--max-count=" + strconv.Itoa(l.Limit)}
	if l.NoMerges {
		args = append(args, "--no-merges")
	}
	if l.Dirs {
		args = append(args, "--raw", "--no-abbrev", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-relative", "--ignore-submodules=none")
	}
	args = append(args, "--end-of-options", l.From)
	if l.Not != "" {
		args = append(args, "^"+l.Not)
	}
	return r.log(ctx, "The commit "+l.From+", or one that it descends from,", append(args, "--"))
}

// log runs git log with arguments. what is what cannot be read if it fails.
func (r *Repository) log(ctx context.Context, what string, args []string) iter.Seq2[*Commit, error] {
	return func(yield func(*Commit, error) bool) {
		within, cancel := context.WithCancel(ctx)
		defer cancel()
		cmd := r.command(within, append([]string{"log", "-z", "--format=%H%x00%P%x00%ct%x00%an%x00%D%x00%B", "--encoding=UTF-8", "--no-color",
			"--no-mailmap", "--no-notes", "--no-show-signature", "--decorate-refs=refs/tags/"}, args...)...)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			yield(nil, unreadable(ctx, what, err))
			return
		}
		in := bufio.NewReader(out)
		for err == nil {
			var c *Commit
			c, err = next(in)
			if err == nil && r.Shallow && len(c.Parents) == 0 {
				c.Dirs = nil // it only seems to add all files
			}
			if err == nil && !yield(c, nil) {
				cancel()
				_ = cmd.Wait()
				return
			}
		}
		if !errors.Is(err, io.EOF) {
			cancel() // git would write the rest
		}
		if waited := cmd.Wait(); errors.Is(err, io.EOF) {
			err = waited
		}
		if err != nil {
			yield(nil, unreadable(ctx, what, err))
		}
	}
}

// next reads the next commit that git writes.
func next(in *bufio.Reader) (*Commit, error) {
	text := func() (string, error) {
		s, err := in.ReadString(0)
		return strings.ToValidUTF8(strings.TrimSuffix(s, "\x00"), "\uFFFD"), err
	}
	var texts [6]string // as in the format
	for i := range texts {
		var err error
		if texts[i], err = text(); err != nil {
			return nil, err
		}
	}
	seconds, err := strconv.ParseInt(texts[2], 10, 64)
	if err != nil {
		return nil, err
	}
	c := &Commit{Hash: texts[0], Parents: strings.Fields(texts[1]), When: time.Unix(seconds, 0), Author: texts[3]}
	for name := range strings.SplitSeq(texts[4], ", ") { // names of tags have no spaces
		if name, ok := strings.CutPrefix(name, "tag: "); ok {
			c.tags = append(c.tags, name)
		}
	}
	c.Subject, c.Body, _ = strings.Cut(strings.TrimSpace(texts[5]), "\n")
	c.Subject = strings.TrimSpace(c.Subject)
	dirs := map[string]bool{}
	for {
		begin, _ := in.Peek(2)
		if !strings.HasPrefix(strings.TrimPrefix(string(begin), "\n"), ":") {
			break
		}
		if _, err := text(); err != nil { // :100644 100644 HASH HASH M
			return nil, err
		}
		name, err := text()
		if err != nil {
			return nil, err
		}
		if len(dirs) < maxDirs {
			add(dirs, name)
		}
	}
	c.Dirs = slices.Sorted(maps.Keys(dirs))
	return c, nil
}

// add adds the directories that a file is in.
func add(dirs map[string]bool, name string) {
	parts := strings.SplitN(name, "/", 3)
	if len(parts) == 1 {
		parts[0] = RootFiles
	}
	dirs[parts[0]] = true
	if len(parts) == 3 {
		dirs[parts[0]+"/"+parts[1]] = true
	}
}

// Head returns the commit that is checked out.
func (r *Repository) Head(ctx context.Context) (*Commit, error) {
	const what = "The repository has no commits yet, or the one that is checked out"
	for c, err := range r.log(ctx, what, []string{"--max-count=1", "HEAD", "--"}) {
		return c, err
	}
	return nil, unreadable(ctx, what, io.EOF)
}

// Tag is a release: a tag that leads to a commit.
type Tag struct{ Name, Hash string }

// maxTags is how many tags are listed, and maxTagName how long a name may be.
const (
	maxTags    = 200
	maxTagName = 200
)

// Tags returns the repository's newest tags, the newest commit first, and a commit before those that it
// descends from.
func (r *Repository) Tags(ctx context.Context) (tags []Tag, err error) {
	for c, err := range r.log(ctx, "The history of the repository's tags", []string{"--tags", "--simplify-by-decoration", "--sparse", "--date-order", "--"}) {
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(slices.Values(c.tags)) {
			if len(name) <= maxTagName {
				tags = append(tags, Tag{name, c.Hash})
			}
		}
		if len(tags) >= maxTags {
			break
		}
	}
	return tags, nil
}

// reserve is the time that should be left of a turn for what comes after a piece of a history.
const reserve = 15 * time.Second

// Hurry reports whether so little time is left that a tool should stop where it is, and continue in
// another turn. A context without a deadline is never in a hurry.
func Hurry(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ok && time.Until(end) < reserve
}
