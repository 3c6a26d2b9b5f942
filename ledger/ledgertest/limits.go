package ledgertest

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
)

var limitChecks = []check{
	{"limits/what is refused", func(r *rig) {
		s := r.open()
		now := r.now(s)
		ok := ledger.Record{Key: "k", Queue: "q", Owner: "o", Body: []byte("b"), Wake: now.Add(time.Hour)}
		with := func(change func(*ledger.Record)) *ledger.Record {
			rec := ok
			change(&rec)
			return &rec
		}
		long := string(bytes.Repeat([]byte("n"), ledger.MaxName+1))
		big := make([]byte, ledger.MaxBody+1)
		for _, c := range []struct {
			what  string
			rec   *ledger.Record
			items []ledger.Item
			err   error
		}{
			{"a long key", with(func(c *ledger.Record) { c.Key = long }), nil, ledger.ErrTooLarge},
			{"a long queue", with(func(c *ledger.Record) { c.Queue = long }), nil, ledger.ErrTooLarge},
			{"a long owner", with(func(c *ledger.Record) { c.Owner = long }), nil, ledger.ErrTooLarge},
			{"a long body", with(func(c *ledger.Record) { c.Body = big }), nil, ledger.ErrTooLarge},
			{"an item with a long body", &ok, []ledger.Item{{N: 1}, {N: 2, Body: big}}, ledger.ErrTooLarge},
			{"no key", with(func(c *ledger.Record) { c.Key = "" }), nil, ledger.ErrInvalid},
			{"a key with a zero byte", with(func(c *ledger.Record) { c.Key = "a\x00b" }), nil, ledger.ErrInvalid},
			{"a key with a space", with(func(c *ledger.Record) { c.Key = "a b" }), nil, ledger.ErrInvalid},
			{"a key that is not ASCII", with(func(c *ledger.Record) { c.Key = "é" }), nil, ledger.ErrInvalid},
			{"a queue that is not UTF-8", with(func(c *ledger.Record) { c.Queue = "\xff" }), nil, ledger.ErrInvalid},
			{"an owner with a line break", with(func(c *ledger.Record) { c.Owner = "a\n" }), nil, ledger.ErrInvalid},
			{"a time in the year 10000", with(func(c *ledger.Record) { c.Wake = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) }), nil, ledger.ErrInvalid},
			{"a time before the year 1", with(func(c *ledger.Record) { c.Keep = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC) }), nil, ledger.ErrInvalid},
			{"item 0", &ok, []ledger.Item{{N: 1}, {N: 0}}, ledger.ErrInvalid},
			{"an item with a number of 64 bits", &ok, []ledger.Item{{N: math.MaxInt64 + 1}}, ledger.ErrInvalid},
		} {
			was := *c.rec
			require.ErrorIsf(r, s.Swap(r.ctx, c.rec, c.items...), c.err, "Swap with %s", c.what)
			require.Equalf(r, was, *c.rec, "Swap with %s changed its argument", c.what)
			_, err := s.Load(r.ctx, "k")
			require.ErrorIsf(r, err, ledger.ErrNotFound, "Load after Swap with %s", c.what)
		}
		r.counted(s.Count(r.ctx, "o", 10)).is(0, "Count after swaps that were refused")
	}},
	{"limits/names that no record has", func(r *rig) {
		s := r.open()
		r.put(s, ledger.Record{Key: "k", Wake: r.now(s).Add(-time.Hour)})
		for _, name := range []string{"", "\x00", "a\x00b", "\xff\xfe", "ключ", " ", string(bytes.Repeat([]byte("n"), 10_000))} {
			_, err := s.Load(r.ctx, name)
			require.ErrorIsf(r, err, ledger.ErrNotFound, "Load of %.20q", name)
			items, err := s.Items(r.ctx, name, 0, 10)
			require.NoErrorf(r, err, "Items of %.20q", name)
			require.Empty(r, items)
			r.counted(s.Count(r.ctx, name, 10)).is(0, "Count of %.20q", name)
			r.listed(s.List(r.ctx, []string{name}, "", 10)).is([]string{}, "List of %.20q", name)
			_, err = s.List(r.ctx, []string{"q"}, name, 10)
			require.NoErrorf(r, err, "List after %.20q", name)
			r.listed(s.Owned(r.ctx, []string{name}, name, 10)).is([]string{}, "Owned by %.20q", name)
			r.nothingDue(s, fmt.Sprintf("a queue named %.20q", name), name)
			ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
			for rec, err := range s.Watch(ctx, name, 0) {
				require.Nilf(r, rec, "Watch of %.20q", name)
				require.ErrorIsf(r, err, context.DeadlineExceeded, "Watch of %.20q", name)
			}
			cancel()
		}
	}},
	{"limits/below one", func(r *rig) {
		s := r.open()
		past := r.now(s).Add(-time.Hour)
		r.put(s, ledger.Record{Key: "k", Queue: "q", Owner: "o", Wake: past, Keep: past}, ledger.Item{N: 1})
		for _, limit := range []int{0, -1, math.MinInt} {
			items, err := s.Items(r.ctx, "k", 0, limit)
			require.NoError(r, err)
			require.Emptyf(r, items, "Items with limit %d", limit)
			r.listed(s.List(r.ctx, []string{"q"}, "", limit)).is([]string{}, "List with limit %d", limit)
			r.listed(s.Owned(r.ctx, []string{"o"}, "", limit)).is([]string{}, "Owned with limit %d", limit)
			r.counted(s.Count(r.ctx, "o", limit)).is(0, "Count with most %d", limit)
			r.counted(s.Forget(r.ctx, limit)).is(0, "Forget with limit %d", limit)
			_, err = s.Take(r.ctx, ledger.Take{Queues: []string{"q"}, Limit: limit, Lease: time.Hour})
			require.ErrorIsf(r, err, ledger.ErrInvalid, "Take with limit %d", limit)
		}
		for _, lease := range []time.Duration{0, -time.Second, 999} {
			_, err := s.Take(r.ctx, ledger.Take{Queues: []string{"q"}, Limit: 1, Lease: lease})
			require.ErrorIsf(r, err, ledger.ErrInvalid, "Take with a lease of %v", lease)
		}
		require.EqualValues(r, 1, r.load(s, "k").Rev, "the revision after calls that do nothing")
		r.counted(s.Forget(r.ctx, math.MaxInt)).is(1, "Forget without a limit")
	}},
}
