package gitrepo

import (
	"cmp"
	"context"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
)

// maxTied limits how many commits and parents are looked at to order tags whose
// commits have one time.
const maxTied = 20_000

// sortTags puts the tags of the newest commits first. Git knows seconds only, and what
// a program makes shares them: there a commit comes before those it descends from. What
// is left of budget limits what is read for that.
func (r *Repository) sortTags(ctx context.Context, tags []Tag, budget *int) error {
	seconds := map[int64]int{}         // how many tags have it
	reached := map[plumbing.Hash]int{} // how many others of its second a commit descends from, itself included
	for _, t := range tags {
		seconds[t.When.Unix()]++
		reached[t.Hash] = 0
	}
	for _, t := range tags {
		if seconds[t.When.Unix()] == 1 || reached[t.Hash] > 0 {
			continue // alone, or on the same commit as another
		}
		// A commit that cannot be read is a matter for who chooses it. What is older cannot
		// lead back to one of this second, unless somebody's clock was wrong.
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
	slices.SortStableFunc(tags, func(a, b Tag) int {
		return cmp.Or(b.When.Compare(a.When), reached[b.Hash]-reached[a.Hash])
	})
	return nil
}
