package releasenotes

import (
	"context"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// maxTied limits how many commits and parents are looked at to order tags whose
// commits have one time.
const maxTied = 20_000

// sortTags puts the tags of the newest commits first. Git knows seconds only, and what
// a program makes shares them: there a commit comes before those it descends from.
func (r *repository) sortTags(ctx context.Context, tags []tag) error {
	slices.SortStableFunc(tags, func(a, b tag) int { return b.when.Compare(a.when) })
	budget := maxTied
	for len(tags) > 0 {
		end := 1
		for end < len(tags) && tags[end].when.Equal(tags[0].when) {
			end++
		}
		if err := r.sortTied(ctx, tags[:end], &budget); err != nil {
			return err
		}
		tags = tags[end:]
	}
	return nil
}

// sortTied orders tags whose commits have one time: a commit reaches more of the others
// than those it descends from. What is older cannot lead back to one of them, unless
// somebody's clock was wrong.
func (r *repository) sortTied(ctx context.Context, tags []tag, budget *int) error {
	reached := make(map[plumbing.Hash]int, len(tags))
	for _, t := range tags {
		reached[t.hash] = 0
	}
	for _, t := range tags {
		if len(reached) == 1 || reached[t.hash] > 0 {
			continue // alone, or on the same commit as another
		}
		// A commit that cannot be read is a matter for who chooses it.
		_ = r.walk(ctx, t.hash, map[plumbing.Hash]bool{}, func(c *commit) error {
			if *budget -= 1 + len(c.parents); *budget <= 0 || c.when.Before(t.when) {
				return storer.ErrStop
			}
			if _, tagged := reached[c.hash]; tagged {
				reached[t.hash]++
			}
			return nil
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	slices.SortStableFunc(tags, func(a, b tag) int { return reached[b.hash] - reached[a.hash] })
	return nil
}
