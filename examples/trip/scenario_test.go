package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/trip/service"
)

// scenario is one life of a saga in which something is killed.
type scenario struct {
	life   string
	script script
	// index counts the points of the life; where is that point.
	index  int
	where  point
	victim string // what is killed there
	how    manner
	cancel bool // the client comes back to cancel; else to go on
}

// manner is how a killing goes on.
type manner string

const (
	// plainly: what is dead is started again when the client has noticed.
	plainly manner = "plainly"
	// atOnce: it is started again at once, so that the turn can go on.
	atOnce manner = "at once"
	// lately is plainly, but the request that was under way is not lost: it
	// arrives when all is over.
	lately manner = "lately"
)

func (s scenario) name() string {
	back := "resume"
	if s.cancel {
		back = "cancel"
	}
	return strings.ReplaceAll(fmt.Sprintf("%s/%02d %v/kill %s %s/%s", s.life, s.index, s.where, s.victim, s.how, back), " ", "_")
}

// cities has the number of the next saga, whose city nobody else visits.
var cities atomic.Int64

func newCity() string { return fmt.Sprintf("City%dX", cities.Add(1)) }

// play runs the scenario in a world that is whole before and after.
func (s scenario) play(t *testing.T, w *world) {
	s.script.City = newCity()
	k := &killing{scenario: s, t: t, world: w}
	d := &driver{script: s.script, url: w.endpoint()}
	ctx := t.Context()
	if s.victim == "client" {
		d.file = filepath.Join(t.TempDir(), "position.json")
		raw, err := json.Marshal(s.script)
		require.NoError(t, err)
		k.client = newProcess(t, w.dir, "client", "client", d.url, string(raw), d.file)
		w.setWatch(k.watch)
		require.NoError(t, k.client.start())
		<-k.client.done
		require.NoError(t, d.load())
	} else {
		w.setWatch(k.watch)
		if err := d.start(ctx); err != nil {
			t.Log("the client was interrupted:", err)
		}
	}
	require.True(t, k.done(), "the saga never came to this point")
	for _, p := range w.parts {
		p.restart(t)
	}
	paid := booked(w.deeds(t, "payment", s.script.City))

	if s.script.Answer == "cancel" && !s.cancel {
		d.script.Answer = "accept" // the user thinks again
	}
	for try := 0; d.result == "" || d.undo != ""; try++ {
		err := d.comeBack(ctx, s.cancel)
		if err == nil && d.position.Token == "" && s.cancel {
			break
		}
		if err != nil {
			t.Log("the client came back in vain:", err)
		}
		require.Less(t, try, 5)
	}
	k.deliver()
	if s.victim == "client" {
		w.calm()
	}
	w.setWatch(nil)
	t.Log("the end:", d.result)
	s.check(t, w, paid)
	if t.Failed() {
		w.logs(t)
	}
}

// check looks into the databases: nothing may be left that is neither paid nor
// released, and nothing may have happened twice. paid is whether the money was
// taken when the client came back.
func (s scenario) check(t *testing.T, w *world, paid bool) {
	var sagas []string
	ends := map[string]bool{}
	for _, name := range serviceNames {
		deeds := w.deeds(t, name, s.script.City)
		assert.LessOrEqual(t, len(deeds), 1, "%s has two holds: %v", name, deeds)
		for _, d := range deeds {
			sagas = append(sagas, d.Reference)
			assert.Contains(t, []service.State{service.Confirmed, service.Released}, d.State, "%s is left with a hold", name)
			assert.Equal(t, 1, d.placed, "%s: how often it was held", name)
			assert.LessOrEqual(t, d.confirmed, 1, "%s: how often it was confirmed", name)
		}
		ends[name] = booked(deeds)
	}
	assert.LessOrEqual(t, len(slices.Compact(sagas)), 1, "it is one saga")
	assert.Equal(t, ends["payment"], ends["hotel"], "the hotel is booked if and only if it is paid")
	assert.Equal(t, ends["payment"], ends["flight"], "the flight is booked if and only if it is paid")
	switch {
	case s.life == "book" && !s.cancel && !s.down():
		assert.True(t, ends["payment"], "the client went on, so the trip is booked")
	case s.life == "book" && s.cancel && s.victim != "client": // its last turn may still go on
		assert.Equal(t, paid, ends["payment"], "cancelling pays for nothing")
	case s.life != "book" && (s.life != "cancel" || s.cancel):
		assert.False(t, ends["payment"], "this trip is not to be booked")
	}
}

func booked(deeds []deed) bool {
	return slices.ContainsFunc(deeds, func(d deed) bool { return d.State == service.Confirmed })
}

// killing kills the victim at the scenario's point.
type killing struct {
	scenario
	t      *testing.T
	world  *world
	client *process

	mu     sync.Mutex
	passed int
	killed bool
	late   func(context.Context) (*http.Response, error)
}

func (k *killing) done() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.killed
}

func (k *killing) watch(p point, r *http.Request, body []byte) fate {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.killed {
		return goOn
	}
	if k.passed++; k.passed <= k.index {
		return goOn
	}
	k.killed = true
	if p != k.where {
		k.t.Errorf("point %d is %v, and was %v", k.index, p, k.where)
	}
	if k.victim == "client" {
		k.client.kill()
		if p.to == "server" {
			return drop
		}
		return goOn // the turn goes on until the server notices
	}
	part := k.world.parts[k.victim]
	part.kill()
	switch k.how {
	case atOnce:
		if err := part.start(); err != nil {
			k.t.Error(err)
		}
	case lately:
		to := k.world.proxies[p.to]
		k.late = func(ctx context.Context) (*http.Response, error) { return to.forward(r.WithContext(ctx), body) }
	}
	return drop
}

// deliver delivers the request that was under way when its sender died.
func (k *killing) deliver() {
	if k.late == nil {
		return
	}
	response, err := k.late(k.t.Context())
	require.NoError(k.t, err)
	require.NoError(k.t, response.Body.Close())
	k.t.Log("the late request is answered with", response.Status)
}

// calmFor is how long nothing must happen in a world for a turn to have ended
// whose client has gone.
const calmFor = 60 * time.Millisecond

// down reports whether the turn finds a service dead, however often it tries.
func (s scenario) down() bool { return slices.Contains(serviceNames, s.victim) && s.how != atOnce }
