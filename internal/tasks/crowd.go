package tasks

import (
	"context"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/records"
)

// Callers who cannot be told apart share an account, and one of them could fill it with tasks that
// cost nothing, as they sleep or ask. So of those that are begun when it is half full, one that
// nobody has looked at for a while gives way to a new one, and one that nobody looks at for longer
// ends.

const (
	// crowdPatience is how long such a task goes on after somebody has looked at it.
	crowdPatience = 10 * time.Minute
	// crowdIdle is after how long at least it gives way to others. A look is noted when the last
	// one was a sixteenth of crowdPatience ago (see [Manager.Renew]), which is less.
	crowdIdle = 2 * time.Minute
	// crowdSample is how many tasks are looked through at a time for one that gives way, and crowdTries
	// how often.
	crowdSample, crowdTries = 16, 4
)

// crowded reports whether a task was begun when its account was half full, and goes on. Calls have a
// patience of their own.
func crowded(e *records.TaskEntry) bool {
	return !e.Call && !e.Wanted.IsZero() && e.State != records.TaskEnded && !e.Cancelled && len(e.Undo) == 0
}

// looked notes that a client has looked at a task.
func (m *Manager) looked(ctx context.Context, e *records.TaskEntry) {
	if crowded(e) && e.Wanted.Sub(m.now()) < crowdPatience-crowdPatience/16 {
		_, _ = m.Renew(ctx, e.Principal, e.ID, crowdPatience, nil) // or the next look does
	}
}

// keepLooking looks at a task until ctx ends.
func (m *Manager) keepLooking(ctx context.Context, e *records.TaskEntry) {
	for sleep(ctx, crowdIdle/2) == nil {
		_, _ = m.Status(ctx, e.Principal, e.ID)
	}
}

// displace ends a task of an account that rests, and that nobody has looked at for the longest of
// some. It reports whether there is one.
func (m *Manager) displace(ctx context.Context, principal, account string) bool {
	now := m.now()
	var last *records.TaskEntry
	for n := 0; n < crowdTries && last == nil; n++ {
		list, err := m.book.SomeTasks(ctx, principal, account, crowdSample)
		if err != nil {
			return false
		}
		for _, e := range list {
			idle := now.Add(crowdPatience).Sub(e.Wanted)
			if crowded(e) && !e.Taken() && !isOver(&e.Task, now) && idle >= max(crowdIdle, 3*e.Poll) && (last == nil || e.Wanted.Before(last.Wanted)) {
				last = e
			}
		}
	}
	if last == nil {
		return false
	}
	next := last.Clone()
	next.Wanted = now
	return m.write(ctx, last, next, true) == nil
}
