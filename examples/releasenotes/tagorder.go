package releasenotes

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

// sortTied orders tags whose commits have one time, by a walk in depth: it is done with
// a commit after all that this one descends from. What is older cannot lead back to one
// of them, unless somebody's clock was wrong.
func (r *repository) sortTied(ctx context.Context, tags []tag, budget *int) error {
	if !slices.ContainsFunc(tags, func(t tag) bool { return t.hash != tags[0].hash }) {
		return nil
	}
	type visit struct {
		hash    plumbing.Hash
		parents []plumbing.Hash // yet to be visited
	}
	var stack []visit
	done := map[plumbing.Hash]int{} // when the walk was done with a commit
	begin := func(hash plumbing.Hash) {
		if _, seen := done[hash]; seen || *budget <= 0 {
			return
		}
		c, err := r.commit(ctx, hash)
		if err != nil || c.when.Before(tags[0].when) {
			return // a commit that cannot be read is a matter for who chooses it
		}
		*budget -= 1 + len(c.parents)
		done[hash] = 0
		stack = append(stack, visit{hash, c.parents})
	}
	count := 0
	for _, t := range slices.Backward(tags) { // so that what is unrelated keeps its order
		begin(t.hash)
		for len(stack) > 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
			top := &stack[len(stack)-1]
			if len(top.parents) == 0 {
				count++
				done[top.hash] = count
				stack = stack[:len(stack)-1]
				continue
			}
			parent := top.parents[0]
			top.parents = top.parents[1:]
			begin(parent)
		}
	}
	slices.SortStableFunc(tags, func(a, b tag) int { return done[b.hash] - done[a.hash] })
	return nil
}
