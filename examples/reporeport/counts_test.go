package reporeport

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/examples/internal/gitrepo"
)

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
		"years":     {now.AddDate(0, -60, 0), "year", "2026", "2021"},
		"all years": {time.Unix(-1<<40, 0), "year", "2026", "1970"},
	} {
		t.Run(name, func(t *testing.T) {
			counts := counts{Last: monthOf(now)}
			span := now.Sub(c.oldest)
			if span < 0 || span > 60*366*24*time.Hour {
				span = 50 * 365 * 24 * time.Hour
			}
			for i := range 1000 {
				counts.add(&gitrepo.Commit{When: now.Add(-span * time.Duration(i) / 1000), Author: "Ann"})
			}
			counts.add(&gitrepo.Commit{When: c.oldest})
			counts.add(&gitrepo.Commit{When: now.AddDate(30, 0, 0)}) // a wrong clock
			unit, periods := counts.periods()
			assert.Equal(t, c.unit, unit)
			assert.LessOrEqual(t, len(periods), maxMonths)
			assert.Equal(t, c.newest, periods[len(periods)-1].Name)
			assert.Equal(t, c.last, periods[0].Name)
			sum, names := 0, map[string]bool{}
			for _, p := range periods {
				sum += p.N
				names[p.Name] = true
			}
			assert.Equal(t, 1002, sum)
			assert.Len(t, names, len(periods), "names of periods differ")
		})
	}
}
