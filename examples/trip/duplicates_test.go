package main

import (
	"database/sql"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/trip/service"
	"github.com/mcpsaga/mcpsaga/internal/jsontest"
)

// TestDuplicates sends one request many times at once to three servers that share a ledger:
// what it does is done once, and all answers are the same. SAGA_NIGHTLY=1 sends a thousand.
func TestDuplicates(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a dozen processes")
	}
	t.Parallel()
	for _, kind := range ledgers {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, kind, 10*time.Minute)
			d := &duplicates{cluster: c, times: 60}
			c.slow = 200 * time.Millisecond
			if os.Getenv(nightly) == "1" {
				d.times, c.slow = 1000, 2*time.Second
			}
			t.Run("a turn that acts and one that ends", d.turns)
			t.Run("tools/cancelSaga", d.cancelled)
			t.Run("a turn, and tools/cancelSaga", d.either)
			t.Run("a first call with a key", d.first)
			t.Run("a first call with a key that acts, in MCP 2026-07-28", d.firstActs)
			if d.times == 1000 { // it takes as long as a lease
				t.Run("while a server is killed", d.killed)
			}
		})
	}
}

type duplicates struct {
	*cluster
	times int
}

// turns: what is answered first holds a hotel, a flight and the money; then they are taken.
func (d *duplicates) turns(t *testing.T) {
	city := newCity()
	before := d.writes(t)
	token := d.begun(t, city)
	body := d.same(t, resume(token, journeyOf(city)), map[string]int{"PUT": 3}, nil)
	assert.Equal(t, []service.State{"held", "held", "held"}, d.states(t, city))
	assert.Equal(t, "suspended", jsontest.Get(body, "result.state").String())
	assert.Equal(t, 2, d.writes(t)-before, "it is claimed and recorded, and nothing else")
	body = d.same(t, resume(tokenOf(t, body), journeyOf(city), yes), map[string]int{"confirm": 3}, nil)
	assert.Contains(t, body, `"paid":"EUR`)
	assert.Equal(t, []service.State{"confirmed", "confirmed", "confirmed"}, d.states(t, city))
	assert.Equal(t, 5, d.writes(t)-before, "it is claimed and recorded, with what it did, and nothing else")
}

func (d *duplicates) cancelled(t *testing.T) {
	city := newCity()
	token := tokenOf(t, d.send(t, 0, resume(d.begun(t, city), journeyOf(city))))
	body := d.same(t, message("tools/cancelSaga", map[string]any{"sagaToken": token}), map[string]int{"DELETE": 3}, nil)
	assert.Contains(t, body, "Cancelled.")
	assert.Equal(t, []service.State{"released", "released", "released"}, d.states(t, city))
}

// either: half of the clients book and half cancel, all with one token.
func (d *duplicates) either(t *testing.T) {
	city := newCity()
	token := tokenOf(t, d.send(t, 0, resume(d.begun(t, city), journeyOf(city))))
	var book, cancel []string
	for i, answer := range d.all(t, func(i int) map[string]any {
		if i%2 == 0 {
			return resume(token, journeyOf(city), yes)
		}
		return message("tools/cancelSaga", map[string]any{"sagaToken": token})
	}, nil) {
		if i%2 == 0 {
			book = append(book, answer)
		} else {
			cancel = append(cancel, answer)
		}
	}
	assert.Len(t, slices.Compact(book), 1)
	assert.Len(t, slices.Compact(cancel), 1)
	if states := d.states(t, city); states[0] == service.Confirmed {
		assert.Equal(t, []service.State{"confirmed", "confirmed", "confirmed"}, states)
		assert.Contains(t, book[0], `"paid":"EUR`)
		assert.Contains(t, cancel[0], "it is too late")
	} else {
		assert.Equal(t, []service.State{"released", "released", "released"}, states)
		assert.Contains(t, book[0], `"code":-32602`)
		assert.Contains(t, cancel[0], "Cancelled.")
	}
}

func (d *duplicates) first(t *testing.T) {
	city := newCity()
	body := d.same(t, call(city, map[string]any{"io.github.mcpsaga/idempotencyKey": city}), nil, nil)
	body = d.send(t, 1, resume(tokenOf(t, body), journeyOf(city)))
	assert.Equal(t, "suspended", jsontest.Get(body, "result.state").String())
}

// firstActs: the answers come before they are asked for.
func (d *duplicates) firstActs(t *testing.T) {
	city := newCity()
	m, header := stateless(city, "", journeyOf(city))
	body := d.same(t, m, map[string]int{"PUT": 3}, header)
	assert.Equal(t, "input_required", jsontest.Get(body, "result.resultType").String())
	assert.Equal(t, []service.State{"held", "held", "held"}, d.states(t, city))
}

// killed: the server that takes the turn dies in it. Whoever loses the connection asks another.
func (d *duplicates) killed(t *testing.T) {
	city := newCity()
	token := d.begun(t, city)
	tr := &trip{script: script{City: city}, where: point{"flight", http.MethodPut, before}, victim: oneServer}
	d.add(tr)
	d.same(t, resume(token, journeyOf(city)), nil, nil)
	assert.True(t, tr.wasStruck())
	assert.Equal(t, []service.State{"held", "held", "held"}, d.states(t, city))
}

// same sends a request many times at once, and returns the answer. The services must have got
// as many requests as given, by their methods; nil is any number.
func (d *duplicates) same(t *testing.T, m map[string]any, arrive map[string]int, header http.Header) string {
	t.Helper()
	answers := d.all(t, func(int) map[string]any { return m }, header)
	different := map[string]int{}
	for _, answer := range answers {
		different[answer]++
	}
	if !assert.Len(t, different, 1) {
		for answer, n := range different {
			t.Logf("%d times: %s", n, answer[:min(len(answer), 300)])
		}
	}
	if arrive != nil {
		assert.Equal(t, arrive, d.arrived)
	}
	return answers[0]
}

// all sends requests to all servers, as nearly at once as can be, and returns their answers.
// From then on it counts what the services get.
func (d *duplicates) all(t *testing.T, request func(i int) map[string]any, header http.Header) []string {
	t.Helper()
	d.finding.Lock()
	d.arrived = map[string]int{}
	d.finding.Unlock()
	answers := make([]string, d.times)
	var all, ready sync.WaitGroup
	start := make(chan struct{})
	ready.Add(d.times)
	for i := range d.times {
		all.Go(func() {
			ready.Done()
			<-start
			answers[i] = d.sendAs(t, i, request(i), header)
		})
	}
	ready.Wait()
	began := time.Now()
	close(start)
	all.Wait()
	d.finding.Lock()
	defer d.finding.Unlock()
	t.Logf("%d answers in %v; the services got %v", d.times, time.Since(began).Round(time.Millisecond), d.arrived)
	return answers
}

// sendAs sends a request with an id of its own, and returns the answer without it. It asks
// the next server when the connection breaks.
func (d *duplicates) sendAs(t *testing.T, id int, m map[string]any, header http.Header) string {
	m = maps.Clone(m)
	m["id"] = id
	for try := range 100 {
		// No proxy is needed, and it would be slow.
		body, err := post(t.Context(), d.servers[(id+try)%replicas].address(), m, header)
		if err == nil {
			return strings.Replace(body, fmt.Sprintf(`"id":%d`, id), `"id":0`, 1)
		}
		time.Sleep(50 * time.Millisecond)
	}
	return "no answer"
}

func (d *duplicates) send(t *testing.T, id int, m map[string]any) string {
	return d.sendAs(t, id, m, nil)
}

// begun returns the token of a new trip.
func (d *duplicates) begun(t *testing.T, city string) string {
	t.Helper()
	return tokenOf(t, d.send(t, 0, call(city, nil)))
}

// states are those of all that is held for a city, each once.
func (d *duplicates) states(t *testing.T, city string) (states []service.State) {
	t.Helper()
	for _, name := range serviceNames {
		for _, deed := range d.deeds(t, name, city) {
			assert.Equal(t, 1, deed.placed, name)
			states = append(states, deed.State)
		}
	}
	return states
}

// writes is how many items the records of all sagas have: each write adds one or more.
func (d *duplicates) writes(t *testing.T) (n int) {
	t.Helper()
	driver, at, table := "sqlite", "file:"+strings.TrimPrefix(d.ledger, "sqlite:")+"?mode=ro&_pragma=busy_timeout(10000)", "records"
	if d.database != nil {
		driver, at, table = "pgx", d.database.DSN(), "mcpsaga_ledger.records"
	}
	db, err := sql.Open(driver, at)
	require.NoError(t, err)
	defer func() { _ = db.Close() }()
	require.NoError(t, db.QueryRow(`SELECT coalesce(sum(head), 0) FROM `+table+` WHERE mode = 'client'`).Scan(&n))
	return n
}

// answer is an element of completedSteps.
type answer struct {
	StepID string         `json:"stepId"`
	Result map[string]any `json:"result"`
}

func journeyOf(city string) answer {
	return answer{"journey", map[string]any{"action": "accept", "content": map[string]any{
		"city": city, "arrival": time.Now().AddDate(0, 1, 0).Format(time.DateOnly), "nights": 3, "travellers": 2,
	}}}
}

var yes = answer{"decision", map[string]any{"action": "accept", "content": map[string]any{"pay": "all"}}}

func message(method string, params map[string]any) map[string]any {
	return map[string]any{"jsonrpc": "2.0", "method": method, "params": params}
}

func call(city string, meta map[string]any) map[string]any {
	params := map[string]any{"name": "trip", "arguments": map[string]any{"from": "Oslo", "account": "account of " + city}}
	if meta != nil {
		params["_meta"] = meta
	}
	return message("tools/callSaga", params)
}

func resume(token string, answers ...answer) map[string]any {
	return message("tools/resumeSaga", map[string]any{"sagaToken": token, "completedSteps": answers})
}

func tokenOf(t *testing.T, body string) string {
	t.Helper()
	token := jsontest.Get(body, "result.sagaToken").String()
	require.NotEmpty(t, token, body)
	return token
}
