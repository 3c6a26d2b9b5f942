package service_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/trip/service"
)

// clock is a clock that tests move.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func open(t *testing.T) (*service.Service, *clock) {
	t.Helper()
	c := &clock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	s, err := service.Open(t.Context(), service.Options{
		Database: filepath.Join(t.TempDir(), "a database? yes.db"), Price: 100, Capacity: 5, Lifetime: time.Hour, Now: c.Now,
	})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close()) })
	return s, c
}

func room(units int) service.Request {
	return service.Request{Item: "room", Units: units, Reference: "saga"}
}

func refused(t *testing.T, err error, reason string) {
	t.Helper()
	var no *service.Conflict
	require.ErrorAs(t, err, &no)
	assert.Contains(t, no.Reason, reason)
}

func TestPlace(t *testing.T) {
	s, _ := open(t)
	ctx := t.Context()
	h, err := s.Place(ctx, "a", room(3))
	require.NoError(t, err)
	assert.Equal(t, 300, h.Amount)
	assert.Equal(t, service.Held, h.State)
	again, err := s.Place(ctx, "a", room(3))
	require.NoError(t, err)
	assert.Equal(t, h, again)
	_, err = s.Place(ctx, "a", room(2))
	refused(t, err, "something else")
	_, err = s.Place(ctx, "b", room(3))
	refused(t, err, "2 are left")
	_, err = s.Place(ctx, "b", room(0))
	refused(t, err, "units above 0")
	_, err = s.Place(ctx, "b", service.Request{Item: "other", Units: 5})
	require.NoError(t, err)
	list, err := s.List(ctx)
	require.NoError(t, err)
	assert.Len(t, list, 2)
}

func TestRelease(t *testing.T) {
	s, _ := open(t)
	ctx := t.Context()
	_, err := s.Place(ctx, "a", room(5))
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, s.Release(ctx, "a"))
	}
	_, err = s.Place(ctx, "a", room(5))
	refused(t, err, "released")
	_, err = s.Confirm(ctx, "a", 0)
	refused(t, err, "released")

	require.NoError(t, s.Release(ctx, "b"), "nobody has used the key")
	_, err = s.Place(ctx, "b", room(5))
	refused(t, err, "released")
	_, err = s.Place(ctx, "c", room(5))
	require.NoError(t, err, "what is released can be had")
}

func TestConfirm(t *testing.T) {
	s, c := open(t)
	ctx := t.Context()
	_, err := s.Confirm(ctx, "a", 0)
	refused(t, err, "nothing is held")
	_, err = s.Place(ctx, "a", room(5))
	require.NoError(t, err)
	_, err = s.Confirm(ctx, "a", 6)
	refused(t, err, "6 are to be confirmed of 5")
	for range 2 {
		h, err := s.Confirm(ctx, "a", 2)
		require.NoError(t, err)
		assert.Equal(t, service.Confirmed, h.State)
		assert.Equal(t, 2, h.Kept)
		assert.Equal(t, 500, h.Amount, "of all units")
	}
	_, err = s.Confirm(ctx, "a", 1)
	refused(t, err, "confirmed")
	refused(t, s.Release(ctx, "a"), "confirmed")
	c.move(2 * time.Hour)
	h, err := s.Place(ctx, "a", room(5))
	require.NoError(t, err, "what is confirmed does not expire")
	assert.Equal(t, 2, h.Kept)
	_, err = s.Place(ctx, "b", room(3))
	require.NoError(t, err, "what was not kept can be had")
}

func TestHoldsExpireByThemselves(t *testing.T) {
	s, c := open(t)
	ctx := t.Context()
	_, err := s.Place(ctx, "a", room(5))
	require.NoError(t, err)
	c.move(time.Hour)
	_, err = s.Confirm(ctx, "a", 0)
	refused(t, err, "expired")
	_, err = s.Place(ctx, "b", room(5))
	require.NoError(t, err)
	require.NoError(t, s.Release(ctx, "a"))
	list, err := s.List(ctx)
	require.NoError(t, err)
	assert.Equal(t, service.Expired, list[0].State)
}

// The owner of what is held says yes to who has asked, once or again, and not when it is too late.
func TestAgree(t *testing.T) {
	s, _ := open(t)
	ctx, status := t.Context(), http.StatusOK
	var told []string
	asks := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		told = append(told, r.URL.Path+" "+string(body))
		w.WriteHeader(status)
	}))
	defer asks.Close()
	refused(t, s.Ask(ctx, "a", asks.URL+"/1"), "nothing is held")
	_, err := s.Place(ctx, "a", room(3))
	require.NoError(t, err)
	refused(t, s.Agree(ctx, "a"), "not asked")
	for range 2 {
		require.NoError(t, s.Ask(ctx, "a", asks.URL+"/1"))
		require.NoError(t, s.Agree(ctx, "a"))
	}
	assert.Equal(t, []string{`/1 {"amount":300}`, `/1 {"amount":300}`}, told)
	status = http.StatusServiceUnavailable
	assert.ErrorContains(t, s.Agree(ctx, "a"), "503")
	status = http.StatusGone
	refused(t, s.Agree(ctx, "a"), "too late")
	told = nil
	_, err = s.Confirm(ctx, "a", 1)
	require.NoError(t, err)
	require.NoError(t, s.Agree(ctx, "a"))
	_, err = s.Place(ctx, "b", room(1))
	require.NoError(t, err)
	require.NoError(t, s.Ask(ctx, "b", asks.URL+"/2"))
	require.NoError(t, s.Release(ctx, "b"))
	refused(t, s.Agree(ctx, "b"), "released")
	refused(t, s.Ask(ctx, "b", asks.URL+"/2"), "released")
	assert.Empty(t, told)
}

// Of many who want the last units, one gets them.
func TestConcurrency(t *testing.T) {
	s, _ := open(t)
	var all sync.WaitGroup
	got := make(chan string, 20)
	for _, key := range strings.Split("abcdefghijklmnopqrst", "") {
		all.Go(func() {
			if _, err := s.Place(context.Background(), key, room(3)); err == nil {
				got <- key
			}
		})
	}
	all.Wait()
	assert.Len(t, got, 1)
}

func TestOptions(t *testing.T) {
	_, err := service.Open(t.Context(), service.Options{})
	assert.ErrorContains(t, err, "needs a database")
	_, err = service.Open(t.Context(), service.Options{Database: t.TempDir(), Price: 1, Capacity: 1, Lifetime: 1})
	assert.Error(t, err, "a directory is no database")
}

func TestHTTP(t *testing.T) {
	s, _ := open(t)
	h := httptest.NewServer(s.Handler())
	defer h.Close()
	const body = `{"item":"room","units":3,"reference":"saga"}`
	tests := []struct {
		method, path, body string
		status             int
		answer             string
	}{
		{"PUT", "/holds/a", body, 200, `"state":"held"`},
		{"PUT", "/holds/b", body, 409, "2 are left"},
		{"PUT", "/holds/b", "{", 400, "JSON"},
		{"POST", "/holds/a/confirm", `{"units":1}`, 200, `"kept":1`},
		{"POST", "/holds/a/confirm", `1`, 400, "JSON"},
		{"POST", "/holds/a/ask", `1`, 400, "JSON"},
		{"POST", "/holds/b/ask", `{"callback":"http://127.0.0.1/"}`, 409, "nothing is held"},
		{"POST", "/holds/b/agree", "", 409, "nothing is held"},
		{"DELETE", "/holds/a", "", 409, "confirmed"},
		{"DELETE", "/holds/b", "", 204, ""},
		{"GET", "/holds", "", 200, `"state":"released"`},
		{"GET", "/holds/a", "", 405, ""},
		{"GET", "/", "", 404, ""},
	}
	for _, test := range tests {
		r, err := http.NewRequestWithContext(t.Context(), test.method, h.URL+test.path, strings.NewReader(test.body))
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		answer, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		assert.Equal(t, test.status, response.StatusCode, "%s %s", test.method, test.path)
		assert.Contains(t, string(answer), test.answer)
		if test.status == 409 {
			assert.True(t, json.Valid(answer))
		}
	}
	require.NoError(t, s.Close())
	response, err := http.Get(h.URL + "/holds")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	assert.Equal(t, 500, response.StatusCode)
}
