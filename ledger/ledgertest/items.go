package ledgertest

import (
	"fmt"
	"math"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
)

var itemChecks = []check{
	{"items/in order", func(r *rig) {
		s, other := r.open(), r.open()
		body := func(n uint64) []byte { return fmt.Appendf(nil, "item %d", n) }
		item := func(n uint64) ledger.Item { return ledger.Item{N: n, Body: body(n)} }
		rec := r.put(s, ledger.Record{Key: "k"}, item(10), item(2))
		r.put(s, ledger.Record{Key: "l"}, ledger.Item{N: 2, Body: []byte("of another record")})
		rec = r.put(other, *rec, item(100), item(9), item(math.MaxInt64))
		rec = r.put(s, *rec, item(1))
		rec = r.put(s, *rec)
		want := []ledger.Item{item(1), item(2), item(9), item(10), item(100), item(math.MaxInt64)}
		r.unchanged(other, rec, want, "items came in any order")
		for _, c := range []struct {
			after uint64
			limit int
			want  []ledger.Item
		}{
			{0, 1, want[:1]}, {0, 3, want[:3]}, {1, 10, want[1:]}, {2, 2, want[2:4]}, {5, 1, want[2:3]}, {100, 10, want[5:]},
			{math.MaxInt64 - 1, 10, want[5:]}, {math.MaxInt64, 10, nil}, {math.MaxInt64 + 1, 10, nil}, {math.MaxUint64, 10, nil}, {0, math.MaxInt, want},
		} {
			got, err := other.Items(r.ctx, "k", c.after, c.limit)
			require.NoError(r, err)
			r.sameItems(c.want, got, fmt.Sprintf("Items after %d, at most %d", c.after, c.limit))
		}
		got, err := s.Items(r.ctx, "none", 0, 10)
		require.NoError(r, err, "Items of a record that there is not")
		require.Empty(r, got)
	}},
	{"items/a conflict changes nothing", func(r *rig) {
		s := r.open()
		items := []ledger.Item{{N: 1, Body: []byte("1")}, {N: 5, Body: []byte("5")}}
		rec := r.put(s, ledger.Record{Key: "k", Body: []byte("before")}, items...)
		for _, c := range []struct {
			what  string
			items []ledger.Item
		}{
			{"an item that there is", []ledger.Item{{N: 5}}},
			{"an item that there is, equal", []ledger.Item{{N: 5, Body: []byte("5")}}},
			{"an item that there is after others", []ledger.Item{{N: 2}, {N: 3}, {N: 1}}},
			{"the same item twice", []ledger.Item{{N: 7}, {N: 8}, {N: 7}}},
		} {
			next := *rec
			next.Body = []byte("after")
			require.ErrorIsf(r, s.Swap(r.ctx, &next, c.items...), ledger.ErrConflict, "Swap with %s", c.what)
			require.Equal(r, rec.Rev, next.Rev, "Rev after a conflict")
			r.unchanged(s, rec, items, "a swap with "+c.what)
		}
		require.ErrorIs(r, s.Swap(r.ctx, &ledger.Record{Key: "new"}, ledger.Item{N: 1}, ledger.Item{N: 1}), ledger.ErrConflict, "a new record with the same item twice")
		_, err := s.Load(r.ctx, "new")
		require.ErrorIs(r, err, ledger.ErrNotFound, "a new record whose items conflicted")
		require.ErrorIs(r, s.Swap(r.ctx, &ledger.Record{Key: "k", Rev: rec.Rev + 1}, ledger.Item{N: 9}), ledger.ErrConflict)
		r.unchanged(s, rec, items, "a swap at another revision with an item")
	}},
	{"items/many", func(r *rig) {
		s, other := r.open(), r.open()
		const n = 700
		var items []ledger.Item
		for i := range uint64(n) {
			items = append(items, ledger.Item{N: i + 1, Body: fmt.Appendf(nil, "item %d", i)})
		}
		rec := r.put(s, ledger.Record{Key: "k"}, items[:n/2]...)
		r.put(s, *rec, items[n/2:]...)
		r.hasItems(other, "k", items, "many items")
		var got []ledger.Item
		for after := uint64(0); ; {
			page, err := other.Items(r.ctx, "k", after, 99)
			require.NoError(r, err)
			if len(page) == 0 {
				break
			}
			got, after = append(got, page...), page[len(page)-1].N
		}
		r.sameItems(items, got, "items by pages")
	}},
}
