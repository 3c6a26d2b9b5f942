package interop

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

type (
	stayCity struct {
		City string `json:"city" title:"City"`
	}
	stayNights struct {
		Nights int `json:"nights" title:"Nights" minimum:"1" maximum:"9"`
	}
	staySure struct {
		Sure bool `json:"sure" title:"Book it"`
	}
)

// counts is a book of stays that only counts them.
func counts(n *atomic.Int32) func(saga.Key, string) error {
	return func(saga.Key, string) error { n.Add(1); return nil }
}

// stay asks three questions, the last of which is a consent before an effect, which book does.
func stay(book func(key saga.Key, what string) error) saga.Definition {
	type args struct {
		Who string `json:"who"`
	}
	city := &steps.Form[stayCity]{ID: "city", Message: askedCity}
	nights := &steps.Form[stayNights]{ID: "nights", Message: askedNights}
	sure := &steps.Form[staySure]{ID: "sure", Message: askedSure, Consent: true}
	books := &saga.Effect[string, string]{Name: "book", Do: func(_ context.Context, key saga.Key, in string) (string, error) {
		return "booked " + in, book(key, in)
	}, Undo: func(context.Context, saga.Performed[string, string]) error { return nil }}
	return saga.Flow[args, string]{
		Info: saga.Info{Name: "stay", Title: "Book a stay", Asks: []steps.Question{city, nights, sure}, Effects: []saga.Declared{books}},
		Run: func(r *saga.Run, in args) (string, error) {
			where, err := saga.Ask(r, city)
			if err != nil {
				return "", err
			}
			long, err := saga.Ask(r, nights)
			if err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, sure); err != nil {
				return "", err
			}
			return saga.Do(r, books, fmt.Sprintf("%s in %s for %d", in.Who, where.City, long.Nights))
		},
	}
}

// appServer is two replicas of a server, of which the second gets the calls of forms.
func appServer(t *testing.T, o server.Options) string {
	t.Helper()
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	o.Keys, o.Ledger, o.Logger = keys, ledger.NewMemory(ledger.MemoryOptions{}), slog.New(slog.DiscardHandler)
	var replicas [2]http.Handler
	for i := range replicas {
		s, err := server.New(o)
		require.NoError(t, err)
		t.Cleanup(s.Close)
		replicas[i] = s.Handler()
	}
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		n := 0
		if bytes.Contains(body, []byte("mcpsaga_form")) {
			n = 1
		}
		replicas[n].ServeHTTP(w, r)
	}))
	t.Cleanup(hs.Close)
	return hs.URL + server.Endpoint
}

// stayBooked is the result of stay for who answers as users do here.
const stayBooked = "booked Ann in Rome for 3"

// stays has the host call the tool, and its user answer in the form. step is called when something is seen there, before
// the user goes on.
func (h *appHost) stays(mood map[string]bool, step func(seen string)) {
	h.Helper()
	h.begin("call", map[string]any{"name": "stay", "args": map[string]any{"who": "Ann"}, "mood": mood, "sandbox": h.sandbox})
	sees := func(text string) {
		h.Helper()
		h.see(text)
		step(text)
	}
	sees(askedCity)
	h.fill("City", "Rome")
	h.press("Send")
	sees(askedNights)
	h.fill("Nights", "3")
	h.press("Send")
	sees(askedSure)
	h.tick("Book it")
	h.press("Send")
	sees("Done.")
}

// again has the model call the tool with the token that the form says.
func (h *appHost) again() {
	h.Helper()
	token := h.do(`return doc.querySelector("code").innerText.match(/resumeToken: (\S+)/)[1]`)
	run[any](h, "again", map[string]any{"name": "stay", "arguments": map[string]any{"who": "Ann", "resumeToken": token}})
	assert.Contains(h, h.log(), "result: "+stayBooked)
}

// A tool is finished by its form in hosts of all moods, by those who are known and by others, in both eras of MCP.
func TestAppCalls(t *testing.T) {
	t.Parallel()
	known := func(*http.Request) (saga.Caller, error) { return saga.Caller{Issuer: "i", Subject: "s"}, nil }
	const old, modern = "legacy", "2026-07-28"
	for name, c := range map[string]struct {
		mode      string
		anonymous bool
		mood      map[string]bool
		held      bool // the call is held until the form has been answered
	}{
		"held, in a session":        {mode: old, anonymous: true, held: true},
		"held, known":               {mode: modern, held: true},
		"withheld, in a session":    {mode: old, mood: map[string]bool{"withheld": true}, held: true},
		"withheld":                  {mode: modern, mood: map[string]bool{"withheld": true}, held: true},
		"late, in a session":        {mode: old, anonymous: true, mood: map[string]bool{"late": true}},
		"late":                      {mode: modern, anonymous: true, mood: map[string]bool{"late": true}},
		"late, stripped":            {mode: modern, anonymous: true, mood: map[string]bool{"late": true, "stripped": true}},
		"late, nothing but text":    {mode: old, anonymous: true, mood: map[string]bool{"late": true, "bare": true}},
		"not known before a result": {mode: modern, anonymous: true},
	} {
		t.Run(name, func(t *testing.T) {
			var booked atomic.Int32
			o := server.Options{Tools: []saga.Definition{stay(counts(&booked))}, Questions: server.Questions{TrustedApps: []string{"host"}}}
			if !c.anonymous {
				o.Authenticate = known
			}
			h := newAppHost(t)
			run[string](h, "connect", map[string]any{"url": appServer(t, o), "mode": c.mode})
			assert.Equal(t, "stay", run[struct{ Model []string }](h, "listed", nil).Model[0])
			h.stays(c.mood, func(string) { h.accessible() })
			assert.EqualValues(t, 1, booked.Load())
			if c.held {
				settled[any](h)
				assert.Contains(t, h.log(), "result: "+stayBooked)
				assert.NotContains(t, h.log(), "message: ")
				return
			}
			until(h, h.page, `host.log.some(l => l.startsWith("message: "))`)
			assert.Contains(t, h.log(), "context: The form is answered.")
			h.again()
			assert.Equal(t, 1, strings.Count(h.log(), "message: "))
		})
	}
}
