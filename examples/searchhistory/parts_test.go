package searchhistory

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/gittest"
	"github.com/mcpsaga/mcpsaga/saga"
)

// parts are the texts of all parts of a result, in order. Each turn
// begins with what came through a token, and is taken twice.
func parts(t *testing.T, tool saga.Definition, a args) (texts []string) {
	t.Helper()
	program, err := tool.Compile()
	require.NoError(t, err)
	arguments, err := json.Marshal(a)
	require.NoError(t, err)
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	out, err := program.Start(t.Context(), engine.Call{ID: saga.ID{1}, Now: now, Arguments: arguments})
	require.NoError(t, err)
	for out.Position != nil {
		texts = append(texts, out.Yielded.Text())
		next := func() *engine.Outcome {
			at := &engine.Position{ID: out.Position.ID, Turn: out.Position.Turn, Tool: "search_history"}
			require.NoError(t, at.Restore(out.Position.Encode()))
			o, err := program.Resume(t.Context(), at, engine.Call{Now: now})
			require.NoError(t, err)
			return o
		}
		once, again := next(), next()
		assert.Equal(t, once.Yielded, again.Yielded, "the same token, the same answer")
		assert.Equal(t, once.Result, again.Result)
		out = once
	}
	require.False(t, out.Result.IsError, out.Result.Content.Text())
	return append(texts, out.Result.Content.Text())
}

// A search gives twenty commits a turn, and each once.
func TestParts(t *testing.T) {
	root := gittest.Import(t, gittest.Long(300))
	want := byGit(t, root, "--grep=because")
	texts := parts(t, New(root), args{Text: "because"})
	var hashes []string
	for i, text := range texts {
		found := short.FindAllStringSubmatch(text, -1)
		if i < len(texts)-1 {
			assert.Len(t, found, perPage)
			assert.NotContains(t, text, "That is all")
		}
		for _, f := range found {
			hashes = append(hashes, f[1])
		}
	}
	require.Len(t, hashes, len(want))
	for i, hash := range want {
		assert.Contains(t, hashes, hash[:10], i)
	}
	assert.Contains(t, texts[1], "Commits 21 to 40 that mention “because”")
	assert.Contains(t, texts[len(texts)-1], "That is all: 270 of 300 commits mention it.")
}

// A part that found nothing says so, and how far it looked.
func TestPartsThatFindNothing(t *testing.T) {
	root := gittest.Import(t, gittest.Long(2*atLeast))
	texts := parts(t, search{root, atLeast}.tool(), args{Text: "reason 7."})
	require.Len(t, texts, 2)
	texts = parts(t, search{root, atLeast}.tool(), args{Text: "no such thing"})
	require.Len(t, texts, 2)
	assert.Contains(t, texts[0], "No commit mentions “no such thing” among those back to 2011-")
	assert.Contains(t, texts[1], "That is all: 0 of 1000 commits mention it.")
}
