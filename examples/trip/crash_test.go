package main

import (
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lives are what can become of a saga when nothing is killed.
var lives = map[string]script{
	"book":     {Travellers: 2, Nights: 3, Answer: "accept"},
	"decline":  {Travellers: 2, Nights: 3, Answer: "decline"},
	"cancel":   {Travellers: 2, Nights: 3, Answer: "cancel"},
	"sold out": {Travellers: 9, Nights: 3, Answer: "accept"}, // there are eight seats
	"too dear": {Travellers: 4, Nights: 12, Answer: "accept"},
}

// TestKill kills the server, each service and the client at every point of every
// life of a saga, has the client come back, and looks into the databases.
func TestKill(t *testing.T) {
	first := newWorld(t)
	var all []scenario
	for life, script := range lives {
		all = append(all, killings(life, script, points(t, first, life, script))...)
	}
	if testing.Short() {
		all = slices.DeleteFunc(all, func(s scenario) bool { return (s.index+len(s.victim)+len(s.life))%6 != 0 })
	}
	began := time.Now()
	// Those that wait for a dead service take longest.
	slices.SortStableFunc(all, func(a, b scenario) int { return b.patience() - a.patience() })
	next := make(chan scenario)
	var workers sync.WaitGroup
	for range 8 {
		w := first
		if first = nil; w == nil {
			w = newWorld(t)
		}
		workers.Go(func() {
			for s := range next {
				t.Run(s.name(), func(t *testing.T) { s.play(t, w) })
			}
		})
	}
	for _, s := range all {
		next <- s
	}
	close(next)
	workers.Wait()
	t.Logf("%d killings in %v", len(all), time.Since(began).Round(time.Millisecond))
}

// points plays a life undisturbed, and lists its points.
func points(t *testing.T, w *world, life string, script script) []point {
	t.Helper()
	script.City = newCity()
	var mu sync.Mutex
	var list []point
	w.setWatch(func(p point, _ *http.Request, _ []byte) fate {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, p)
		return goOn
	})
	defer w.setWatch(nil)
	d := &driver{script: script, url: w.endpoint()}
	require.NoError(t, d.start(t.Context()))
	t.Logf("%s: %d points, %s", life, len(list), d.result)
	scenario{life: life, script: script, victim: "nothing", how: atOnce}.check(t, w, false)
	assert.NotEmpty(t, list)
	return list
}

// killings lists everything that can be killed in a life, and how the client comes
// back. A service is killed around its own requests only: what it does not notice
// while it is idle is the same as before its next request.
func killings(life string, script script, points []point) []scenario {
	var list []scenario
	add := func(s scenario) {
		for _, cancel := range []bool{false, true} {
			s.life, s.script, s.cancel = life, script, cancel
			list = append(list, s)
		}
	}
	for i, p := range points {
		add(scenario{index: i, where: p, victim: "server", how: plainly})
		add(scenario{index: i, where: p, victim: "client", how: plainly})
		if p.to == "server" {
			continue
		}
		add(scenario{index: i, where: p, victim: p.to, how: plainly})
		add(scenario{index: i, where: p, victim: p.to, how: atOnce})
		if p.moment == before {
			add(scenario{index: i, where: p, victim: "server", how: lately})
		}
	}
	return list
}
