package gitrepo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/saga"
)

// Commit is what tools need of a commit. Its texts are valid UTF-8, and as long as their author made
// them: a tool that keeps many clips them.
type Commit struct {
	Hash    string
	Parents []string
	// When is the committer's time.
	When time.Time
	// Author is a name, as the author gave it.
	Author string
	// Subject is the message's first line, Body the rest.
	Subject, Body string
	// Dirs are the directories that it changes, if they were asked for, in order: those at the root and
	// those in them. [RootFiles] stands for files that are in none. A merge changes nothing of its own.
	Dirs []string
}

// RootFiles stands for the files that are in no directory.
const RootFiles = "."

// Log says which commits [Repository.Log] returns.
type Log struct {
	// From is where the walk begins. What is reachable from Not is left out, if it is not empty.
	From, Not string
	// Skip is how many are left out at the beginning, and Limit how many are returned at most.
	Skip, Limit int
	// NoMerges leaves merges out, and Dirs has the commits' Dirs found out.
	NoMerges, Dirs bool
}

// Limits of what is read of one commit.
const (
	maxText = 1 << 20 // bytes of its message, of a name, of the list of its parents
	maxDirs = 10_000
)

// Log returns a commit and all that it descends from, each once, the newest first: the same list
// whenever it is asked for, whatever was committed meanwhile. An error is the last of them.
func (r *Repository) Log(ctx context.Context, l Log) iter.Seq2[*Commit, error] {
	return func(yield func(*Commit, error) bool) {
		args := []string{"log", "-z", "--format=%H%x00%P%x00%ct%x00%an%x00%B", "--encoding=UTF-8", "--no-color", "--no-mailmap", "--no-notes",
			"--no-show-signature", "--skip=" + strconv.Itoa(l.Skip), "--max-count=" + strconv.Itoa(l.Limit)}
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
		within, cancel := context.WithCancel(ctx)
		defer cancel()
		cmd := r.command(within, append(args, "--")...)
		var said bytes.Buffer
		cmd.Stderr = &bounded{&said, 4 << 10}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			yield(nil, unreadable(ctx, "The history", err))
			return
		}
		in := &fields{bufio.NewReaderSize(out, 64<<10)}
		stopped := false
		for err == nil && !stopped {
			var c *Commit
			if c, err = in.commit(r.Shallow); err == nil {
				stopped = !yield(c, nil)
			}
		}
		ended := errors.Is(err, io.EOF)
		if !ended {
			cancel() // git would write the rest
		}
		if waited := cmd.Wait(); ended {
			err = waited
		}
		if stopped || err == nil {
			return
		}
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			exit.Stderr = said.Bytes()
		}
		yield(nil, unreadable(ctx, "The commit "+l.From+", or one that it descends from,", err))
	}
}

// Gone is the error for a commit where a tool was to go on, and that is not in the repository any more.
func Gone(hash string) error {
	return saga.Failf("The commit %.12s, where this was to go on, is no longer in the repository: its history was rewritten meanwhile. Begin again.", hash)
}

// fields reads what git writes: texts that end in NUL.
type fields struct{ *bufio.Reader }

// next returns the next text. It ends with io.EOF.
func (f *fields) next() (string, error) {
	var text []byte
	for {
		part, err := f.ReadSlice(0)
		if text = append(text, part...); len(text) > maxText {
			return "", errTooLarge
		}
		switch {
		case err == nil:
			return strings.ToValidUTF8(string(text[:len(text)-1]), "\uFFFD"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", err
		}
	}
}

// commit reads the next commit. Of those that a shallow clone begins with it is not known what they
// change.
func (f *fields) commit(shallow bool) (*Commit, error) {
	var texts [5]string // as in the format
	for i := range texts {
		text, err := f.next()
		if err != nil {
			return nil, err
		}
		texts[i] = text
	}
	seconds, err := strconv.ParseInt(texts[2], 10, 64)
	if err != nil {
		return nil, err
	}
	c := &Commit{Hash: texts[0], Parents: strings.Fields(texts[1]), When: time.Unix(seconds, 0), Author: texts[3]}
	subject, body, _ := strings.Cut(strings.TrimSpace(texts[4]), "\n")
	c.Subject, c.Body = strings.TrimSpace(subject), body
	dirs := map[string]bool{}
	for {
		begin, err := f.Peek(2)
		if len(begin) == 0 || begin[0] != ':' && (len(begin) < 2 || begin[0] != '\n' || begin[1] != ':') {
			if err != nil && !errors.Is(err, io.EOF) {
				return nil, err
			}
			break
		}
		modes, err := f.next() // :100644 100644 HASH HASH M
		if err != nil {
			return nil, err
		}
		name, err := f.next()
		if err != nil {
			return nil, err
		}
		if len(dirs) < maxDirs {
			add(dirs, name, strings.Contains(modes, "160000"))
		}
	}
	for d := range dirs {
		c.Dirs = append(c.Dirs, d)
	}
	slices.Sort(c.Dirs)
	if shallow && len(c.Parents) == 0 {
		c.Dirs = nil
	}
	return c, nil
}

// add adds the directories that a file is in. A submodule, whose files are in another repository, is one.
func add(dirs map[string]bool, name string, module bool) {
	parts := strings.SplitN(name, "/", 3)
	if module && len(parts) < 3 {
		parts = append(parts, "")
	}
	switch len(parts) {
	case 1:
		dirs[RootFiles] = true
	case 3:
		dirs[parts[0]+"/"+parts[1]] = true
		fallthrough
	default:
		dirs[parts[0]] = true
	}
}

// bounded writes up to a limit, and drops the rest.
type bounded struct {
	to   *bytes.Buffer
	left int
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.left -= n
	b.to.Write(p[:n])
	return len(p), nil
}
