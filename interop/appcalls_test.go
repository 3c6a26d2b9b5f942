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

// stay asks three questions, the last of which is a consent before an effect. booked counts how often that is done.
func stay(booked *atomic.Int32) saga.Definition {
	type args struct {
		Who string `json:"who"`
	}
	city := &steps.Form[stayCity]{ID: "city", Message: "Where do you want to stay?"}
	nights := &steps.Form[stayNights]{ID: "nights", Message: "For how many nights?"}
	sure := &steps.Form[staySure]{ID: "sure", Message: "Shall it be booked?", Consent: true}
	book := &saga.Effect[string, string]{Name: "book", Do: func(_ context.Context, _ saga.Key, in string) (string, error) {
		booked.Add(1)
		return "booked " + in, nil
	}, Undo: func(context.Context, saga.Performed[string, string]) error { return nil }}
	return saga.Flow[args, string]{
		Info: saga.Info{Name: "stay", Title: "Book a stay", Asks: []steps.Question{city, nights, sure}, Effects: []saga.Declared{book}},
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
			return saga.Do(r, book, fmt.Sprintf("%s in %s for %d", in.Who, where.City, long.Nights))
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

// A tool is finished by its form in hosts of all moods, by those who are known and by others, in both eras of MCP.
func TestAppCalls(t *testing.T) {
	t.Parallel()
	known := func(*http.Request) (server.Principal, error) { return server.Principal{Issuer: "i", Subject: "s"}, nil }
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
			o := server.Options{Tools: []saga.Definition{stay(&booked)}, Questions: server.Questions{TrustedApps: []string{"host"}}}
			if !c.anonymous {
				o.Authenticate = known
			}
			h := newAppHost(t)
			run[string](h, "connect", map[string]any{"url": appServer(t, o), "mode": c.mode})
			assert.Equal(t, "stay", run[struct{ Model []string }](h, "listed", nil).Model[0])
			h.begin("call", map[string]any{"name": "stay", "args": map[string]any{"who": "Ann"}, "mood": c.mood, "sandbox": h.sandbox})
			h.see("Where do you want to stay?")
			h.accessible()
			h.fill("City", "Rome")
			h.press("Send")
			h.see("For how many nights?")
			h.fill("Nights", "3")
			h.press("Send")
			h.see("Shall it be booked?")
			h.tick("Book it")
			h.press("Send")
			h.see("Done.")
			h.accessible()
			assert.EqualValues(t, 1, booked.Load())
			const end = "result: booked Ann in Rome for 3"
			if c.held {
				settled[any](h)
				assert.Contains(t, h.log(), end)
				assert.NotContains(t, h.log(), "message: ")
				return
			}
			until(h, h.page, `host.log.some(l => l.startsWith("message: "))`)
			token := h.do(`return doc.querySelector("code").innerText.match(/resumeToken: (\S+)/)[1]`)
			assert.Contains(t, h.log(), "context: The form is answered.")
			run[any](h, "again", map[string]any{"name": "stay", "arguments": map[string]any{"who": "Ann", "resumeToken": token}})
			assert.Contains(t, h.log(), end)
			assert.Equal(t, 1, strings.Count(h.log(), "message: "))
		})
	}
}
