package bounds

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// enters has a request of an account take a place, and reports whether it got one.
func (g *Gate) enters(ctx context.Context, account string) (*Place, bool) {
	p := new(Place)
	met, _ := g.Admit(ctx, p, account, "")
	return p, met == ""
}

func gateOf(places int) *Gate { return New(Config{Places: places, Now: time.Now}) }

// empty is that no place is left behind.
func (g *Gate) empty(t *testing.T) {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	assert.Zero(t, g.taken)
	assert.Empty(t, g.shares)
	assert.Empty(t, g.waiting)
}

// One caller has never all places: there is one for each of the others, at once.
func TestOneCallerLeavesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		var places []*Place
		for {
			p, ok := g.enters(t.Context(), "a flood")
			if !ok {
				break
			}
			places = append(places, p)
		}
		assert.Len(t, places, 64/2+64/8)
		began := time.Now()
		for i := range 64 - len(places) {
			p, ok := g.enters(t.Context(), fmt.Sprint("another ", i))
			require.True(t, ok)
			places = append(places, p)
		}
		assert.Zero(t, time.Since(began))
		for _, p := range places {
			p.Leave()
		}
		g.empty(t)
	})
}

// What finds no place waits for one, in its turn, for a second, and no longer than its client does. What waits takes
// memory, so that is bounded too, for each caller.
func TestPlacesAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(16)
		var places []*Place
		for range 16/2 + 2 {
			p, ok := g.enters(t.Context(), "a")
			require.True(t, ok)
			places = append(places, p)
		}
		var waits sync.WaitGroup
		waits.Go(func() {
			p, ok := g.enters(t.Context(), "a")
			assert.True(t, ok)
			places = append(places, p)
		})
		synctest.Wait()
		ctx, leave := context.WithCancel(t.Context())
		waits.Go(func() {
			_, ok := g.enters(ctx, "a")
			assert.False(t, ok, "the client has gone")
		})
		synctest.Wait()
		began := time.Now()
		_, ok := g.enters(t.Context(), "a")
		assert.False(t, ok, "as many wait as may")
		assert.Zero(t, time.Since(began))
		leave()
		time.Sleep(Patience / 2)
		places[16/2].Leave()
		waits.Wait()
		assert.Equal(t, Patience/2, time.Since(began))
		_, ok = g.enters(t.Context(), "a")
		assert.False(t, ok)
		assert.Equal(t, Patience/2+Patience, time.Since(began))
		for _, p := range places {
			p.Leave()
		}
		g.empty(t)
	})
}

// A request that waits for its client leaves its place to others, and is not refused when the answer has come.
func TestPlacesOfThoseThatRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(1)
		a, ok := g.enters(t.Context(), "a")
		require.True(t, ok)
		first, second := a.Rest(), a.Rest()
		b, ok := g.enters(t.Context(), "b")
		assert.True(t, ok)
		began := time.Now()
		first()
		assert.Zero(t, time.Since(began), "it still rests")
		second()
		assert.Equal(t, Patience, time.Since(began), "it has waited for a place")
		go a.Rest()()
		synctest.Wait()
		again := a.Rest() // while it waits for a place
		time.Sleep(2 * Patience)
		assert.Equal(t, 1, g.taken, "that of b")
		b.Leave()
		again()
		a.Leave()
		g.empty(t)
		a.Rest()()
		g.empty(t)
	})
}

// A caller whose clients answer all at once takes no place that is another's.
func TestAnswersAtOnceLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(16)
		var places []*Place
		var backs []func()
		for range 40 {
			p, ok := g.enters(t.Context(), "a")
			require.True(t, ok)
			places, backs = append(places, p), append(backs, p.Rest())
		}
		var answers sync.WaitGroup
		for _, back := range backs {
			answers.Go(back)
		}
		answers.Wait()
		began := time.Now()
		p, ok := g.enters(t.Context(), "b")
		assert.True(t, ok)
		assert.Zero(t, time.Since(began))
		for _, p := range append(places, p) {
			p.Leave()
		}
		g.empty(t)
	})
}

// However requests come and go, all places are given back, and there are never more than there may be.
func TestPlacesAreGivenBack(t *testing.T) {
	g := gateOf(8)
	var mu sync.Mutex
	working, most := 0, 0
	works := func(by int) {
		mu.Lock()
		defer mu.Unlock()
		working += by
		most = max(most, working)
	}
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			for n := range 20 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(n%4)*time.Millisecond)
				p, ok := g.enters(ctx, fmt.Sprint(i%40))
				if ok {
					works(1)
					if works(-1); n%5 == 0 {
						back := p.Rest()
						go back()
					}
				}
				p.Leave()
				cancel()
			}
		})
	}
	all.Wait()
	assert.LessOrEqual(t, most, 8)
	assert.Eventually(t, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.taken == 0 && len(g.waiting) == 0 && len(g.shares) == 0
	}, 10*time.Second, time.Millisecond)
}

// A server that is not busy pays next to nothing for its bounds.
func BenchmarkAdmit(b *testing.B) {
	g := gateOf(100)
	place := new(Place)
	b.ReportAllocs()
	for b.Loop() {
		*place = Place{}
		g.Admit(b.Context(), place, "a", "")
		place.Leave()
	}
}

// A place may weigh more than others, though never so much that it cannot be had.
func TestPlacesOfWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := gateOf(64)
		enters := func(weight int) *Place {
			p := &Place{Weight: weight}
			if met, _ := g.Admit(t.Context(), p, "a", ""); met != "" {
				return nil
			}
			return p
		}
		places := []*Place{}
		for range 64/2/8 + 1 {
			p := enters(1000)
			require.NotNil(t, p)
			places = append(places, p)
		}
		assert.Nil(t, enters(2), "it is more than one caller's")
		var waits sync.WaitGroup
		for range 2 {
			waits.Go(func() {
				p := enters(4)
				require.NotNil(t, p)
				defer p.Leave()
				time.Sleep(time.Millisecond)
			})
		}
		synctest.Wait()
		places[len(places)-1].Leave() // is room for both
		began := time.Now()
		waits.Wait()
		assert.Equal(t, time.Millisecond, time.Since(began))
		for _, p := range places {
			p.Leave()
		}
		g.empty(t)
	})
}
