package jsonview

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Only so much large JSON is taken apart at once, and what is small does not wait for it. Nor does what hangs stop all.
func TestLittleIsTakenApartAtOnce(t *testing.T) {
	one, two := TakeApart(1<<20), TakeApart(1<<20)
	TakeApart(Large - 1)()
	third := make(chan func(), 1)
	go func() { third <- TakeApart(100 << 20) }()
	select {
	case <-third:
		assert.Fail(t, "it has not waited")
	case <-time.After(20 * time.Millisecond):
	}
	one()
	two()
	done := <-third
	defer func(d time.Duration) { patience = d }(patience)
	patience = 100 * time.Millisecond
	TakeApart(1 << 20)()
	assert.Less(t, time.Duration(freed.Load()), time.Since(began)-patience, "who is out of patience is no progress")
	done()
	patience = 2 * time.Second
	one, two = TakeApart(1<<20), TakeApart(1<<20)
	go func() { third <- TakeApart(100 << 20) }()
	for range 25 {
		time.Sleep(100 * time.Millisecond)
		freed.Store(int64(time.Since(began)))
	}
	assert.Empty(t, third)
	one()
	two()
	(<-third)()
	assert.Empty(t, parts)
	assert.Empty(t, first)
}
