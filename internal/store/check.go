package store

import (
	"crypto/rand"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Times that a record may have: what every store can represent in microseconds, and tell from the
// zero time.
var (
	earliest = time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC)
	latest   = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Check says whether a store may write the record so. The error is one of [ErrTooLarge] and
// [ErrInvalid]. Every [Store] calls it before it writes, so that all of them refuse the same.
func (r *Record) Check(c Change) error {
	switch {
	case r.ID == ID{}:
		return fmt.Errorf("%w: a record without an ID", ErrInvalid)
	case r.Tool == "" || r.Mode == "" || r.Status == "":
		return fmt.Errorf("%w: a record without a tool, mode or status", ErrInvalid)
	case len(c.Items) == 0:
		return fmt.Errorf("%w: a write without an item", ErrInvalid)
	case !isText(r.Audience) || !isText(r.Tool) || !isText(string(r.Mode)) || !isText(string(r.Status)):
		return fmt.Errorf("%w: an audience, tool, mode or status that is not text", ErrInvalid)
	case c.Lease < 0:
		return fmt.Errorf("%w: a lease of %v", ErrInvalid, c.Lease)
	case len(r.Audience) > MaxName || len(r.Tool) > MaxName || len(r.Mode) > MaxName || len(r.Status) > MaxName:
		return fmt.Errorf("%w: a name of more than %d bytes", ErrTooLarge, MaxName)
	case len(r.Summary) > MaxSummary:
		return fmt.Errorf("%w: a summary of %d bytes, of which %d are allowed", ErrTooLarge, len(r.Summary), MaxSummary)
	case len(r.State) > MaxState:
		return fmt.Errorf("%w: a state of %d bytes, of which %d are allowed", ErrTooLarge, len(r.State), MaxState)
	}
	for _, t := range []time.Time{r.Wake, r.Keep} {
		if !t.IsZero() && (t.Before(earliest) || !t.Before(latest)) {
			return fmt.Errorf("%w: the time %v is not in the years 1 to 9999", ErrInvalid, t)
		}
	}
	return CheckItems(c.Items)
}

// CheckItems says whether a store may append the items.
func CheckItems(items []Item) error {
	if len(items) == 0 {
		return fmt.Errorf("%w: no items", ErrInvalid)
	}
	if len(items) > MaxItems {
		return fmt.Errorf("%w: %d items at once, of which %d are allowed", ErrTooLarge, len(items), MaxItems)
	}
	for i := range items {
		switch {
		case items[i].Kind == "":
			return fmt.Errorf("%w: an item without a kind", ErrInvalid)
		case !isText(items[i].Kind):
			return fmt.Errorf("%w: a kind that is not text", ErrInvalid)
		case len(items[i].Kind) > MaxName:
			return fmt.Errorf("%w: a kind of more than %d bytes", ErrTooLarge, MaxName)
		case len(items[i].Body) > MaxState:
			return fmt.Errorf("%w: an item of %d bytes, of which %d are allowed", ErrTooLarge, len(items[i].Body), MaxState)
		}
	}
	return nil
}

// isText reports whether a name is text as databases keep it: UTF-8 without NUL.
func isText(name string) bool { return utf8.ValidString(name) && !strings.Contains(name, "\x00") }

// Check says whether records can be taken so. The error is [ErrInvalid].
func (t *Take) Check() error {
	if t.Limit < 1 {
		return fmt.Errorf("%w: at most %d records are to be taken", ErrInvalid, t.Limit)
	}
	if t.Lease < time.Microsecond {
		return fmt.Errorf("%w: a lease of %v", ErrInvalid, t.Lease)
	}
	return nil
}

// Micro is a time as a store keeps it.
func Micro(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

// Trial returns what a [Store] writes to find out whether it can: a record with a state so large that a
// full disk has no room for it, and an item.
func Trial() (*Record, Change) {
	r := &Record{Audience: "check", Tool: "check", Mode: "check", Status: Waiting, State: make([]byte, 8<<10)}
	rand.Read(r.ID[:]) // never fails
	return r, Change{Items: []Item{{Kind: "check"}}}
}
