package gitrepo

import (
	"context"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
)

// maxTied limits how many commits and parents are looked at to order tags whose
// commits have one time.
const maxTied = 20_000

// sortTags puts the tags of the newest commits first. Git knows seconds only, and what
// a program makes shares them: there a commit comes before those it descends from.
func (r *Repository) sortTags(ctx context.Context, tags []Tag) error {
	slices.SortStableFunc(tags, func(a, b Tag) int { return b.When.Compare(a.When) })
	budget := maxTied
	for len(tags) > 0 {
		end := 1
		for end < len(tags) && tags[end].When.Equal(tags[0].When) {
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
func (r *Repository) sortTied(ctx context.Context, tags []Tag, budget *int) error {
	reached := make(map[plumbing.Hash]int, len(tags))
	for _, t := range tags {
		reached[t.Hash] = 0
	}
	for _, t := range tags {
		if len(reached) == 1 || reached[t.Hash] > 0 {
			continue // alone, or on the same commit as another
		}
		// A commit that cannot be read is a matter for who chooses it.
		for c, err := range r.Commits(ctx, t.Hash, nil) {
			if err != nil {
				break
			}
			if *budget -= 1 + len(c.Parents); *budget <= 0 || c.When.Before(t.When) {
				break
			}
			if _, tagged := reached[c.Hash]; tagged {
				reached[t.Hash]++
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	slices.SortStableFunc(tags, func(a, b Tag) int { return reached[b.Hash] - reached[a.Hash] })
	return nil
}
