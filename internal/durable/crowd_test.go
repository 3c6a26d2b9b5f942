package durable

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/internal/store"
)

// However often anything may have changed, of a crowd only so many look again at once, and each does in the end.
func TestCrowdsLookInTurn(t *testing.T) {
	for name, waiting := range map[string]int{"few": crowd - 1, "a crowd": 5 * crowd, "an uneven one": 5*crowd + 50} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &hub{waiting: map[store.ID]map[chan struct{}]bool{}, all: func(store.ID) {}, users: 1} // nothing is listened to
				var all []chan struct{}
				for n := range waiting {
					c, stop := h.wait(store.ID{byte(n), byte(n >> 8), 1})
					defer stop()
					all = append(all, c)
				}
				heard := make(map[chan struct{}]int)
				look := func() (n int) {
					for _, c := range all {
						select {
						case <-c:
							n++
							heard[c]++
						default:
						}
					}
					return n
				}
				const times = 100
				for range times {
					h.changed(store.ID{}, 0)
					assert.LessOrEqual(t, look(), 2*crowd)
					time.Sleep(crowdPause / 10)
					synctest.Wait()
				}
				total := 0
				for _, n := range heard {
					total += n
				}
				if waiting < crowd {
					assert.Equal(t, times*waiting, total, "each time")
				} else {
					assert.LessOrEqual(t, total, times/10*2*crowd)
				}
				look()
				clear(heard)
				h.changed(store.ID{}, 0)
				for range 20 {
					look()
					time.Sleep(crowdPause)
					synctest.Wait()
				}
				assert.Len(t, heard, waiting, "each hears of the last change")
				assert.False(t, h.pauses)
				assert.Empty(t, h.due)
			})
		})
	}
}
