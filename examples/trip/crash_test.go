package main

import (
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/longtests"
)

// lives are what can become of a saga when nothing is killed.
var lives = map[string]script{
	"book":     {Travellers: 2, Nights: 3, Answer: "accept"},
	"decline":  {Travellers: 2, Nights: 3, Answer: "decline", asBefore: true},
	"cancel":   {Travellers: 2, Nights: 3, Answer: "cancel", asBefore: true},
	"sold out": {Travellers: 9, Nights: 3, Answer: "accept"}, // there are eight seats
	"too dear": {Travellers: 4, Nights: 12, Answer: "accept"},
}

// TestKill kills the server, each service and the client at every point of every
// life of a saga, has the client come back, and looks into the databases.
func TestKill(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for services that are dead")
	}
	t.Parallel()
	first := newWorld(t)
	var all []scenario
	for _, life := range slices.Sorted(maps.Keys(lives)) {
		all = append(all, killings(life, lives[life], points(t, first, life, lives[life]))...)
	}
	if os.Getenv(nightly) != "1" {
		all = sample(all)
	}
	began := time.Now()
	// Those that wait for a dead service take longest.
	slices.SortStableFunc(all, func(a, b scenario) int {
		if a.down() == b.down() {
			return 0
		}
		return map[bool]int{true: -1, false: 1}[a.down()]
	})
	next := make(chan scenario, len(all))
	for _, s := range all {
		next <- s
	}
	close(next)
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
	if script.asBefore {
		require.Greater(t, len(list), decided)
		assert.Equal(t, "resumeSaga", list[decided-1].what)
	}
	return list
}

// killings lists what can be killed in a life, and how the client comes back. Of
// several killings that leave the world in the same state there is only one, unless
// SAGA_NIGHTLY is 1:
//
//   - A service is killed around its own requests: while it is idle it is the same
//     as before its next request.
//   - Server and client are killed after a request to a service: before it is the
//     same as after the one before, or as before the turn.
//   - A request before which somebody is killed arrives later.
//   - Until the last question is answered, all lives that come to it are the same.
func killings(life string, script script, points []point) []scenario {
	every := os.Getenv(nightly) == "1"
	var list []scenario
	add := func(i int, victim string, how manner) {
		for _, cancel := range []bool{false, true} {
			list = append(list, scenario{life, script, i, points[i], victim, how, cancel})
		}
	}
	for i, p := range points {
		if script.asBefore && i < decided && !every {
			continue
		}
		if p.to == "server" || p.moment == after || every {
			add(i, "server", plainly)
			add(i, "client", plainly)
		}
		if p.to == "server" {
			continue
		}
		add(i, p.to, atOnce)
		if p.moment == before {
			add(i, "server", lately)
			add(i, p.to, lately)
		}
		if p.moment == after || every {
			add(i, p.to, plainly)
		}
	}
	return list
}

// sample takes killings until there is one of each kind: of the server, the client and
// the service that is asked, in every manner, around every kind of request; and in every
// life of each of the three, with each way back. If somebody asked for long tests it is
// also one of all those with each way back, at every point, and in every life around every
// kind of request.
func sample(all []scenario) (some []scenario) {
	seen := map[scenario]bool{}
	for _, s := range all {
		victim := s.victim
		if s.where.to == victim && victim != "server" {
			victim = "service"
		}
		news := false
		around := point{what: s.where.what, moment: s.where.moment}
		kinds := []scenario{
			{where: around, victim: victim, how: s.how},
			{life: s.life, victim: victim, cancel: s.cancel},
		}
		if longtests.Wanted() {
			kinds = append(kinds,
				scenario{where: around, victim: victim, how: s.how, cancel: s.cancel},
				scenario{where: s.where},
				scenario{life: s.life, where: around},
			)
		}
		for _, kind := range kinds {
			news = news || !seen[kind]
			seen[kind] = true
		}
		if news {
			some = append(some, s)
		}
	}
	return some
}

// decided is the number of points until the last question is answered: two of the
// call, eight of the turn that holds.
const decided = 10

// nightly is the variable of the environment that has all killings made, also where
// they are the same as another.
const nightly = "SAGA_NIGHTLY"
