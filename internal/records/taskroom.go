package records

import (
	"context"
	"time"
)

// What owners are named by.
const (
	ownerGoing = "task owner"
	ownerEnded = "task owner ended"
	ownerCall  = "call owner"
	// Ends of calls are many for whoever is busy, and kept for a moment only: they have a limit of
	// their own.
	ownerCallEnded = "call owner ended"
)

// Limits of calls and of who is not known, by that of a principal.
const (
	// manyEnds is how many times more calls may have ended lately than may be under way.
	manyEnds = 10
	// accountShare is what part an account has that is no principal's.
	accountShare = 4
)

// taskOwner returns the name under which what is of a kind is counted.
func (b *Book) taskOwner(kind, principal, account string) (string, error) {
	if account != "" {
		kind, principal = kind+" by account", account
	}
	owners, err := b.often(kind, principal)
	if err != nil {
		return "", err
	}
	return owners[0], nil
}

// taskOwners returns the names under which a principal's tasks are counted while they are
// under way, and those for when they have ended.
func (b *Book) taskOwners(principal string) (going, ended []string, err error) {
	if going, err = b.often(ownerGoing, principal); err == nil {
		ended, err = b.often(ownerEnded, principal)
	}
	return going, ended, err
}

// Room fails with [ErrFull] if a principal, or the account that it has no share of its own
// in, has as many tasks under way as limit, or its part of it, and counts one more otherwise. What
// other replicas have made lately may not be seen. It is crowded when more than half may be taken.
func (b *Book) Room(ctx context.Context, principal, account string, limit int) (crowded bool, err error) {
	n, err := b.roomFor(ctx, ownerGoing, principal, account, limit)
	return 2*n > shareOf(account, limit), err
}

// CallRoom is [Book.Room] for calls, of which as many may be as the Book's limit says, and those that
// have ended lately.
func (b *Book) CallRoom(ctx context.Context, principal, account string) error {
	if b.limit < 0 {
		return nil
	}
	if _, err := b.roomFor(ctx, ownerCallEnded, principal, account, manyEnds*b.limit); err != nil {
		return err
	}
	_, err := b.roomFor(ctx, ownerCall, principal, account, b.limit)
	return err
}

// shareOf is the part of a principal's limit that an account has; empty is the principal's own.
func shareOf(account string, limit int) int {
	if account == "" {
		return limit
	}
	return max(1, limit/accountShare)
}

func (b *Book) roomFor(ctx context.Context, kind, principal, account string, limit int) (int, error) {
	owner, err := b.taskOwner(kind, principal, account)
	if err != nil {
		return 0, err
	}
	limit = shareOf(account, limit)
	// What ends is not counted: who seems to have reached the limit is counted again.
	return b.countIn(ctx, owner, limit, func(c count) bool {
		return c.n >= limit && (time.Since(c.at) > countAgain || c.found < limit)
	})
}

// countAgain is how long a principal that was found to have reached its limit is refused without
// asking the store.
const countAgain = 100 * time.Millisecond
