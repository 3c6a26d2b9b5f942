package reporeport

import (
	"fmt"
	"time"
)

// axis is the time of all series of a report: periods of equal length, the newest first. A
// history that is longer than it has room for makes its periods longer.
type axis struct {
	// Newest is the last month, counted from the year 0.
	Newest int `json:"newest"`
	// Unit is the number of months in a period: one of units.
	Unit int `json:"unit"`
}

var units = []int{1, 3, 12, 60}

const (
	maxPeriods = 60
	firstMonth = 1970 * 12 // what is older counts there: no program was under version control
)

// series are numbers by period, the newest first.
type series []int

func monthOf(t time.Time) int {
	t = t.UTC()
	return t.Year()*12 + int(t.Month()) - 1
}

// period returns the index of the period that a time is in. Times after the newest month,
// which only a wrong clock can bring, are in the first.
func (a axis) period(t time.Time) int {
	month := min(max(monthOf(t), firstMonth), a.Newest)
	return a.Newest/a.Unit - month/a.Unit
}

// longer returns the axis with the next unit.
func (a axis) longer() axis {
	for _, u := range units {
		if u > a.Unit {
			return axis{a.Newest, u}
		}
	}
	return a
}

// refit returns a series of one axis on one with a longer unit.
func (s series) refit(from, to axis) series {
	var out series
	for i, n := range s {
		out = out.add(to.Newest/to.Unit-(from.Newest/from.Unit-i)*from.Unit/to.Unit, n)
	}
	return out
}

func (s series) add(period, n int) series {
	for len(s) <= period {
		s = append(s, 0)
	}
	s[period] += n
	return s
}

func (s series) at(period int) int {
	if period < len(s) {
		return s[period]
	}
	return 0
}

// name is what a period is called.
func (a axis) name(period int) string {
	month := (a.Newest/a.Unit - period) * a.Unit
	year := month / 12
	switch a.Unit {
	case 1:
		return fmt.Sprintf("%d-%02d", year, month%12+1)
	case 3:
		return fmt.Sprintf("%d Q%d", year, month%12/3+1)
	case 12:
		return fmt.Sprint(year)
	}
	return fmt.Sprintf("%d–%d", year, year+a.Unit/12-1)
}

// unit is what periods are called.
func (a axis) unit() string {
	switch a.Unit {
	case 1:
		return "month"
	case 3:
		return "quarter"
	case 12:
		return "year"
	}
	return fmt.Sprintf("%d years", a.Unit/12)
}
