package reporeport

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/internal/gitrepo"
)

// Of more names than there is room for, those that occur most are kept, and what is said of
// them is not too much.
func TestRanking(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var r ranking
	index, exact := r.index(), map[string]int{}
	const all, most = 20_000, 20
	for range all {
		name := fmt.Sprint(int(random.ExpFloat64() * 12))
		exact[name]++
		r.entry(index, most, name).N++
	}
	require.Len(t, r.List, most)
	require.True(t, r.Full)
	kept := map[string]bool{}
	for i, e := range r.List {
		kept[e.Name] = true
		assert.Equal(t, i, index[e.Name])
		assert.LessOrEqual(t, e.N, exact[e.Name])
		assert.GreaterOrEqual(t, e.most(), exact[e.Name])
	}
	assert.Len(t, index, most)
	for name, n := range exact {
		if n > all/most {
			assert.True(t, kept[name], "%s occurs %d times", name, n)
		}
	}
	top := r.top(3)
	assert.Equal(t, []string{"0", "1", "2"}, []string{top[0].Name, top[1].Name, top[2].Name})
}

// Who comes late and often is not taken for one of many who come once.
func TestRankingOfLateNames(t *testing.T) {
	var r ranking
	index := r.index()
	for i := range 400 {
		r.entry(index, 20, fmt.Sprint("early ", i%20)).N++
	}
	for i := range 400 {
		r.entry(index, 20, fmt.Sprint("once ", i)).N++
		r.entry(index, 20, "late").N++
	}
	assert.Contains(t, index, "late")
	assert.Equal(t, "late", r.top(1)[0].Name)
}

// However long a history is, its periods are few, and nothing of it is lost.
func TestPeriods(t *testing.T) {
	now := time.Date(2026, 5, 17, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		oldest time.Time
		unit   string
		newest string
		last   string
	}{
		"months":    {now.AddDate(0, -59, 0), "month", "2026-05", "2021-06"},
		"quarters":  {now.AddDate(0, -60, 0), "quarter", "2026 Q2", "2021 Q2"},
		"years":     {now.AddDate(-16, 0, 0), "year", "2026", "2010"},
		"all years": {time.Unix(-1<<40, 0), "year", "2026", "1970"},
	} {
		t.Run(name, func(t *testing.T) {
			tally := newTally(&counts{Axis: axis{monthOf(now), 1}})
			exact := map[string]int{}
			span := now.Sub(c.oldest)
			if span < 0 || span > 60*366*24*time.Hour {
				span = 50 * 365 * 24 * time.Hour
			}
			for i := range 1000 {
				when := now.Add(-span * time.Duration(i) / 1000)
				tally.commit(&gitrepo.Commit{When: when, Author: "Ann"}, []string{"dir"})
			}
			tally.commit(&gitrepo.Commit{When: c.oldest}, []string{"dir"})
			tally.commit(&gitrepo.Commit{When: now.AddDate(30, 0, 0)}, nil) // a wrong clock
			assert.Equal(t, c.unit, tally.Axis.unit())
			assert.LessOrEqual(t, len(tally.All), maxPeriods)
			assert.Equal(t, c.newest, tally.Axis.name(0))
			assert.Equal(t, c.last, tally.Axis.name(len(tally.All)-1))
			sum := 0
			for i, n := range tally.All {
				sum += n
				exact[tally.Axis.name(i)] += n
			}
			assert.Equal(t, 1002, sum)
			assert.Len(t, exact, len(tally.All), "names of periods differ")
			// As if the unit had been known from the beginning.
			direct := newTally(&counts{Axis: tally.Axis})
			for i := range 1000 {
				direct.commit(&gitrepo.Commit{When: now.Add(-span * time.Duration(i) / 1000)}, []string{"dir"})
			}
			direct.commit(&gitrepo.Commit{When: c.oldest}, []string{"dir"})
			assert.Equal(t, direct.Dirs.List[0].Series, tally.Dirs.List[0].Series)
		})
	}
}
