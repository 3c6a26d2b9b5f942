package gitrepo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Tag is a release: a tag that leads to a commit.
type Tag struct {
	// Name is the tag's, without refs/tags/.
	Name string
	// Hash is the commit, When its time.
	Hash string
	When time.Time
}

const (
	maxTags    = 10_000
	maxTagName = 200
	// maxTied is how many commits are looked at to find out which of two of the same second is newer.
	maxTied = 5000
)

// Tags returns the repository's tags, the newest commit first. Those that lead to no commit, and those
// with very long names, are left out.
func (r *Repository) Tags(ctx context.Context) ([]Tag, error) {
	// Of an annotated tag, what it leads to has an asterisk.
	cmd := r.command(ctx, "for-each-ref", "--count="+strconv.Itoa(maxTags),
		"--format=%(refname:strip=2)%00%(objecttype)%(*objecttype)%00%(objectname)%00%(*objectname)%00%(committerdate:unix)%(*committerdate:unix)%00", "refs/tags")
	out, err := cmd.Output()
	if err != nil {
		return nil, unreadable(ctx, "The list of the repository's tags", err)
	}
	var tags []Tag
	in := &fields{bufio.NewReader(bytes.NewReader(out))}
	for {
		var texts [5]string
		for i := range texts {
			if texts[i], err = in.next(); err != nil {
				break
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, unreadable(ctx, "The list of the repository's tags", err)
		}
		t := Tag{Name: strings.TrimPrefix(texts[0], "\n"), Hash: texts[2]}
		if texts[1] == "tagcommit" {
			t.Hash = texts[3]
		} else if texts[1] != "commit" {
			continue // a tag of something else than a commit is no release
		}
		seconds, err := strconv.ParseInt(texts[4], 10, 64)
		if err != nil || len(t.Name) > maxTagName {
			continue
		}
		t.When = time.Unix(seconds, 0)
		tags = append(tags, t)
	}
	return tags, r.sortTags(ctx, tags)
}

// sortTags sorts tags by time, the newest first, and those of the same second as their commits
// descend from one another.
func (r *Repository) sortTags(ctx context.Context, tags []Tag) error {
	place := map[string]int{}
	byTime := func(a, b Tag) int { return b.When.Compare(a.When) }
	slices.SortStableFunc(tags, byTime)
	for i := 0; i < len(tags); {
		j := i + 1
		for j < len(tags) && tags[j].When.Equal(tags[i].When) {
			j++
		}
		tied := slices.CompactFunc(slices.Clone(tags[i:j]), func(a, b Tag) bool { return a.Hash == b.Hash })
		if len(tied) > 1 && len(tied) <= 100 {
			args := []string{"rev-list", "--topo-order", "--since=" + strconv.FormatInt(tags[i].When.Unix(), 10), "--max-count=" + strconv.Itoa(maxTied), "--end-of-options"}
			for _, t := range tied {
				args = append(args, t.Hash)
			}
			out, err := r.command(ctx, append(args, "--")...).Output()
			if err != nil {
				return unreadable(ctx, "The history of the repository's tags", err)
			}
			for n, hash := range strings.Fields(string(out)) {
				place[hash] = n
			}
		}
		i = j
	}
	slices.SortStableFunc(tags, func(a, b Tag) int {
		if order := byTime(a, b); order != 0 {
			return order
		}
		return place[a.Hash] - place[b.Hash]
	})
	return nil
}
