package program

import (
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// The command shows what a host gets that cannot ask, and plays the part of its model.
func TestCallAsAnotherHost(t *testing.T) {
	t.Parallel()
	keyset := filepath.Join(t.TempDir(), "k.json")
	keys, err := codec.CreateKeysetFile(keyset)
	require.NoError(t, err)
	tool := saga.Flow[none, string]{Info: saga.Info{Name: "sing", Asks: []steps.Question{askTone}}, Run: func(r *saga.Run, _ none) (string, error) {
		form, err := saga.Ask(r, askTone)
		return "a " + form.Tone + " song", err
	}}
	prints := saga.Flow[none, string]{Info: saga.Info{Name: "print"}, Run: func(*saga.Run, none) (string, error) {
		return "It ended with resumeToken: abc", nil
	}}
	s, err := server.New(server.Options{Keys: keys, Tools: []saga.Definition{tool, prints}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	for _, protocol := range []string{"", "2026-07-28", "2025-06-18"} {
		h := newHome(t)
		h.env = append(h.env, "SAGA_SERVER="+web.URL)
		said := h.ok("call", "sing", "--as", "no-elicitation", "--protocol", protocol)
		assert.Contains(t, said, `Question "tone": "How shall it sound?"`)
		token := regexp.MustCompile(`resumeToken: ([A-Za-z0-9_-]+)`).FindStringSubmatch(said)
		require.NotNil(t, token, said)
		assert.Contains(t, h.ok("token", "explain", token[1], "--keyset", keyset), `"tool": "sing"`)
		assert.Contains(t, h.ok("call", "sing", "--as", "no-elicitation", "--protocol", protocol, "resumeToken="+token[1], `answers:={"tone":{"tone":"sad"}}`), "a sad song")
		_, stderr, code := h.run("call", "sing", "--as", "somebody")
		assert.Equal(t, exitUsage, code)
		assert.Contains(t, stderr, `--as is no-elicitation or apps, not "somebody"`)
		_, _, code = h.run("call", "sing", "--as", "no-elicitation", "--protocol", "saga")
		assert.Equal(t, exitUsage, code)
	}
	for _, protocol := range []string{"2024-11-05", "2025-03-26"} {
		h := newHome(t)
		h.env = append(h.env, "SAGA_SERVER="+web.URL)
		h.ok("call", "print", "--protocol", protocol) // which waits for nothing
		for _, as := range []string{"", "no-elicitation"} {
			said, stderr, code := h.run("call", "sing", "--as", as, "--protocol", protocol, "--answers", h.file("a.json", `{"elicitation-1":{"tone":"sad"}}`))
			assert.Contains(t, said, "is not finished")
			if as == "" {
				assert.Equal(t, exitNeedsAnswer, code)
				assert.Contains(t, stderr, "nothing can be asked over --protocol "+protocol+": leave that out, or speak 2025-06-18 or later")
			} else {
				assert.Zero(t, code)
			}
		}
	}
}
