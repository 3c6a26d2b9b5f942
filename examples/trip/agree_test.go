package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/examples/trip/service"
	"github.com/mcpsaga/mcpsaga/internal/longtests"
)

// agreement is a trip that others have to agree to, on three servers, with a gate before them for the approver's
// browser and the bank.
type agreement struct {
	*cluster
	t      *testing.T
	script script
	asTask bool
	public string
	turn   atomic.Int64

	mu     sync.Mutex
	where  point // where the server, or all, are killed
	victim string
	struck bool
}

func newAgreement(t *testing.T, asTask bool, ttl time.Duration, where point, victim string) *agreement {
	a := &agreement{t: t, asTask: asTask, where: where, victim: victim, script: script{City: newCity(), Travellers: 2, Nights: 3, Answer: "accept"}}
	gate := httptest.NewServer(http.HandlerFunc(a.pass))
	t.Cleanup(gate.Close)
	a.public = gate.URL
	a.cluster = newCluster(t, "sqlite", ttl, "--approver", "boss", "--public", gate.URL)
	a.instead = a.strikeAt
	return a
}

func (a *agreement) strikeAt(i int, p point) fate {
	a.mu.Lock()
	now := !a.struck && p == a.where
	a.struck = a.struck || now
	a.mu.Unlock()
	if now && a.strike(a.victim, i) {
		return drop
	}
	return goOn
}

// pass passes a request to the next server.
func (a *agreement) pass(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	i := int(a.turn.Add(1)) % replicas
	p := point{"server", strings.Split(r.URL.Path, "/")[1] + " " + r.Method, before}
	if err != nil || a.strikeAt(i, p) == drop {
		panic(http.ErrAbortHandler)
	}
	response, err := a.front[i].forward(r, body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if p.moment = after; err != nil || a.strikeAt(i, p) == drop {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(response.StatusCode)
	_, _ = w.Write(answer)
}

// send sends a request as somebody. The status is 0 if it is lost.
func (a *agreement) send(method, at, who, kind, body string) (status int, answer string) {
	r, err := http.NewRequestWithContext(a.t.Context(), method, at, strings.NewReader(body))
	require.NoError(a.t, err)
	r.Header.Set("Content-Type", kind)
	r.Close = true
	if who != "" {
		r.SetBasicAuth(who, "")
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return 0, ""
	}
	defer func() { _ = response.Body.Close() }()
	raw, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(raw)
}

var (
	waitingLink = regexp.MustCompile(`href="(waiting/[\w-]+)"`)
	hiddenInput = regexp.MustCompile(`type="hidden" name="(\w+)" value="([^"]*)"`)
)

// opened returns the page that waits for the boss, and what its form sends.
func (a *agreement) opened() (page string, form url.Values) {
	a.eventually("the boss finds nothing", func() bool {
		_, list := a.send(http.MethodGet, a.public+"/ask/waiting", "boss", "", "")
		link := waitingLink.FindStringSubmatch(list)
		if link == nil {
			return false
		}
		page = a.public + "/ask/" + link[1]
		status, shown := a.send(http.MethodGet, page, "boss", "", "")
		form = url.Values{}
		for _, m := range hiddenInput.FindAllStringSubmatch(shown, -1) {
			form.Set(m[1], m[2])
		}
		return status == http.StatusOK && strings.Contains(shown, a.script.City) && strings.Contains(shown, "EUR 990.00")
	})
	return page, form
}

func (a *agreement) eventually(otherwise string, f func() bool) {
	a.t.Helper()
	for end := time.Now().Add(90 * time.Second); !f(); time.Sleep(50 * time.Millisecond) {
		require.True(a.t, time.Now().Before(end), otherwise)
	}
}

// decide has the boss accept or decline, twice; others may not, and see nothing.
func (a *agreement) decide(do string) (page string, form url.Values) {
	page, form = a.opened()
	form.Set("do", do)
	status, _ := a.send(http.MethodGet, a.public+"/ask/waiting", "", "", "")
	assert.Contains(a.t, []int{0, http.StatusUnauthorized}, status, "who has no name")
	for _, who := range []string{"eve", "guest"} {
		for _, body := range []string{"", form.Encode()} {
			method := http.MethodGet
			if body != "" {
				method = http.MethodPost
			}
			status, list := a.send(method, page, who, "application/x-www-form-urlencoded", body)
			assert.Contains(a.t, []int{0, http.StatusForbidden}, status, who)
			assert.NotContains(a.t, list, a.script.City)
		}
	}
	counted := 0
	a.eventually("the answer is not taken", func() bool {
		status, _ := a.send(http.MethodPost, page, "boss", "application/x-www-form-urlencoded", form.Encode())
		if status == http.StatusSeeOther {
			counted++
		}
		return status == http.StatusConflict // as it has been answered
	})
	assert.LessOrEqual(a.t, counted, 1, "one answer counts")
	return page, form
}

// money returns the key of the money's hold.
func (a *agreement) money() (key string) {
	a.eventually("no money is held", func() bool {
		deeds := a.deedsOf("payment")
		if len(deeds) == 1 {
			key = deeds[0].Key
		}
		return key != ""
	})
	return key
}

func (a *agreement) deedsOf(name string) []deed { return a.deeds(a.t, name, a.script.City) }

// agrees sends that the owner of the account agrees.
func (a *agreement) agrees(key string) (status int) {
	status, _ = a.send(http.MethodPost, a.parts["payment"].address()+"/holds/"+key+"/agree", "", "application/json", "")
	return status
}

// callback returns the address that the bank has been given.
func (a *agreement) callback(key string) (at string) {
	a.eventually("the bank is not asked", func() bool {
		return a.dbs["payment"].QueryRow(`SELECT callback FROM asked WHERE key = ?`, key).Scan(&at) == nil
	})
	return at
}

// begin runs a client that comes back until it has a result, or, if it leaves, until others are waited for.
func (a *agreement) begin(leaves bool) <-chan string {
	ended := make(chan string, 1)
	protocol := "saga"
	if a.asTask {
		protocol = "2026-07-28"
	}
	go func() {
		d := &driver{script: a.script}
		var result *client.Result
		var err error
		for try := 0; a.t.Context().Err() == nil; try++ {
			ctx, cancel := context.WithTimeout(a.t.Context(), 30*time.Second)
			h := d.handlers()
			h.OnPosition = func(_ context.Context, p client.Position) error {
				if d.position = p; leaves && p.Task != "" {
					return client.ErrPause
				}
				return nil
			}
			transport := &client.HTTP{URL: a.endpoint(try, a.script.City), RoundTripper: &http.Transport{DisableKeepAlives: true}, Header: named("ann")}
			c := client.New(transport, client.Options{Protocol: protocol, PreferTasks: a.asTask, Retries: -1, Timeout: 20 * time.Second})
			if d.position.Subject() == "" {
				result, err = c.Call(ctx, "trip", map[string]any{"from": "Oslo", "account": "account of " + a.script.City}, h)
			} else {
				result, err = c.Resume(ctx, d.position, h)
			}
			cancel()
			_ = c.Close()
			var task *client.TaskError
			switch {
			case err == nil && result.Raw != nil:
				ended <- string(result.Raw)
				return
			case errors.Is(err, client.ErrPause), errors.As(err, &task):
				ended <- fmt.Sprint(err)
				return
			}
			a.t.Log("the client comes back after:", err)
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return ended
}

func named(who string) http.Header {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(who, "")
	return r.Header
}

// settled waits until everything is in a state, once.
func (a *agreement) settled(want service.State) {
	a.eventually(fmt.Sprintf("not all is %s", want), func() bool {
		for _, name := range serviceNames {
			deeds := a.deedsOf(name)
			if len(deeds) != 1 || deeds[0].State != want {
				return false
			}
		}
		return true
	})
	a.once(want)
}

func (a *agreement) once(want service.State) {
	for _, name := range serviceNames {
		for _, d := range a.deedsOf(name) {
			assert.Equal(a.t, want, d.State, name)
			assert.Equal(a.t, 1, d.placed, name)
			assert.LessOrEqual(a.t, d.confirmed, 1, name)
		}
	}
}

// approvals are where servers are killed while others agree. The first ones are not left to SAGA_LONG.
var approvals = []point{
	{"payment", "ask", after}, {"server", "ask POST", after}, {"server", "events POST", after}, {"payment", "confirm", after}, {"payment", "ask", before},
	{"server", "ask POST", before}, {"server", "events POST", before}, {"payment", "confirm", before}, {"server", "ask GET", after},
	{"hotel", "PUT", after}, {"flight", "PUT", before}, {"payment", "PUT", after}, {"hotel", "confirm", after}, {"flight", "confirm", after},
}

// TestOthersAgreeWhileServersDie has the boss approve a trip, and the owner of the account agree at the bank, while
// three servers are killed between all steps. What comes twice, early, late, or from others changes nothing.
func TestOthersAgreeWhileServersDie(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	points := approvals
	if !longtests.Wanted() {
		points = points[:4]
	}
	for i, where := range points {
		for _, asTask := range []bool{true, false} {
			for j, victim := range []string{oneServer, allServers} {
				if !longtests.Wanted() && (i+j)%2 != 0 == asTask {
					continue
				}
				t.Run(fmt.Sprintf("%v, task %v, %s", where, asTask, victim), func(t *testing.T) {
					t.Parallel()
					a := newAgreement(t, asTask, 10*time.Minute, where, victim)
					ended := a.begin(false)
					key := a.money()
					assert.Equal(t, http.StatusConflict, a.agrees(key), "before the bank has asked")
					page, form := a.decide("accept")
					at := a.callback(key)
					a.eventually("the bank cannot call back", func() bool { return a.agrees(key) == http.StatusNoContent })
					a.eventually("the same again", func() bool { return a.agrees(key) == http.StatusNoContent })
					var said string
					select {
					case said = <-ended:
					case <-time.After(90 * time.Second):
						require.Fail(t, "there is no end")
					}
					assert.Contains(t, said, `boss`)
					assert.Contains(t, said, `EUR 198.00`)
					a.settled(service.Confirmed)
					a.eventually("another value", func() bool {
						status, _ := a.send(http.MethodPost, at, "", "application/json", `{"amount":1}`)
						return status == http.StatusConflict
					})
					form.Set("do", "decline")
					a.eventually("too late for the boss", func() bool {
						status, _ := a.send(http.MethodPost, page, "boss", "application/x-www-form-urlencoded", form.Encode())
						require.NotEqual(t, http.StatusSeeOther, status)
						return status >= http.StatusBadRequest && status < 500
					})
					a.eventually("late, the same", func() bool { return a.agrees(key) == http.StatusNoContent })
					a.once(service.Confirmed)
					a.mu.Lock()
					defer a.mu.Unlock()
					assert.True(t, a.struck, "a server has died")
				})
			}
		}
	}
}

// TestTripsToWhichNobodyAgrees are undone, with the client gone and servers killed: the boss does not answer, or declines, or the owner
// of the account does not agree. What comes then is too late.
func TestTripsToWhichNobodyAgrees(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	ask := point{"payment", "ask", after}
	for _, test := range []struct {
		name  string
		where point
	}{{"no boss", point{"server", "ask GET", after}}, {"the boss declines", point{"server", "ask POST", after}}, {"no owner", ask}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ttl := 20 * time.Second // longer than servers take to come back on a machine that is busy
			a := newAgreement(t, true, ttl, test.where, allServers)
			ended := a.begin(true)
			key := a.money()
			var page, at string
			var form url.Values
			switch test.name {
			case "no boss":
				page, form = a.opened()
				form.Set("do", "accept")
			case "the boss declines":
				page, form = a.decide("decline")
				form.Set("do", "accept")
			default:
				page, form = a.decide("accept")
				at = a.callback(key)
			}
			assert.Contains(t, <-ended, client.ErrPause.Error())
			a.settled(service.Released)
			if page != "" {
				a.eventually("too late for the boss", func() bool {
					status, _ := a.send(http.MethodPost, page, "boss", "application/x-www-form-urlencoded", form.Encode())
					require.NotEqual(t, http.StatusSeeOther, status)
					return status >= http.StatusBadRequest && status < 500
				})
			}
			assert.Equal(t, http.StatusConflict, a.agrees(key), "the owner is too late")
			if at != "" {
				a.eventually("too late for the bank", func() bool {
					status, _ := a.send(http.MethodPost, at, "", "application/json", `{"amount":99000}`)
					return status == http.StatusGone
				})
			}
			a.once(service.Released)
		})
	}
}
