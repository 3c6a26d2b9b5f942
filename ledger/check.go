package ledger

import (
	"fmt"
	"math"
	"time"
)

// Times that a record may have: what every store can represent in microseconds, and tell
// from the zero time.
var (
	earliest = time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC)
	latest   = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
)

// Check says whether a store may keep the record and the items. The error is one of
// [ErrTooLarge] and [ErrInvalid]. Every [Store] calls it before it swaps, so that all of
// them refuse the same.
func (r *Record) Check(items ...Item) error {
	if r.Key == "" {
		return fmt.Errorf("%w: a record without a key", ErrInvalid)
	}
	if err := checkNames(r.Key, r.Queue, r.Owner); err != nil {
		return err
	}
	if err := checkBody("a record", r.Body); err != nil {
		return err
	}
	for _, t := range []time.Time{r.Wake, r.Keep} {
		if !t.IsZero() && (t.Before(earliest) || !t.Before(latest)) {
			return fmt.Errorf("%w: the time %v is not in the years 1 to 9999", ErrInvalid, t)
		}
	}
	for _, i := range items {
		if i.N < 1 || i.N > math.MaxInt64 {
			return fmt.Errorf("%w: an item with the number %d, which is not in 1 to %d", ErrInvalid, i.N, int64(math.MaxInt64))
		}
		if err := checkBody("an item", i.Body); err != nil {
			return err
		}
	}
	return nil
}

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

func checkNames(names ...string) error {
	for _, name := range names {
		if len(name) > MaxName {
			return fmt.Errorf("%w: a name of %d bytes, of which %d are allowed", ErrTooLarge, len(name), MaxName)
		}
		for i := range len(name) {
			if c := name[i]; c < '!' || c > '~' {
				return fmt.Errorf("%w: byte %d of a name is 0x%02x, which is not visible ASCII", ErrInvalid, i, c)
			}
		}
	}
	return nil
}

func checkBody(of string, body []byte) error {
	if len(body) > MaxBody {
		return fmt.Errorf("%w: %s of %d bytes, of which %d are allowed", ErrTooLarge, of, len(body), MaxBody)
	}
	return nil
}
