package interop

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

var (
	sdkForm = &steps.Form[struct {
		Name string `json:"name"`
	}]{ID: "form", Message: "Your name?"}
	sdkLink = &steps.Link{ID: "link", Message: "Sign in.", URL: "https://example.com/login"}
	sdkGoOn = &steps.Form[struct {
		Yes bool `json:"yes"`
	}]{ID: "go_on", Message: "Go on?"}
)

// sdkTalk reports progress and logs, more than once and not always forward.
var sdkTalk = saga.Flow[none, string]{
	Info: saga.Info{Name: "talk", Asks: []steps.Question{sdkForm}},
	Run: func(r *saga.Run, _ none) (string, error) {
		for _, done := range []float64{1, 2, 2, 1, 3} {
			r.Progress(done, 4, "working")
		}
		r.Log(slog.LevelDebug, "a detail")
		r.Log(slog.LevelInfo, map[string]any{"a": []int{1}})
		r.Log(slog.LevelError, "a problem")
		if _, err := saga.Ask(r, sdkForm); err != nil {
			return "", err
		}
		r.Progress(4, 4, "")
		return "talked", nil
	},
}

// sdkVisit has the user follow a link.
var sdkVisit = saga.Machine[none, none]{
	Info:  saga.Info{Name: "visit", Asks: []steps.Question{sdkLink}},
	Start: func(t *saga.Turn[none, none]) (saga.Next, error) { return t.Ask("visited", sdkLink) },
	Steps: saga.Steps[none, none]{"visited": func(t *saga.Turn[none, none]) (saga.Next, error) {
		a, _ := t.StepAnswer("link")
		return t.Textf("link: %s", a.Result)
	}},
}

// sdkAway gives up its connection and works on.
var sdkAway = saga.Flow[none, string]{
	Info: saga.Info{Name: "away"},
	Run: func(r *saga.Run, _ none) (string, error) {
		r.Log(slog.LevelInfo, "before")
		r.Disconnect(123 * time.Millisecond)
		r.Log(slog.LevelInfo, "after")
		time.Sleep(20 * time.Millisecond)
		return "away and back", nil
	},
}

type sdkPagesArgs struct {
	Pages int `json:"pages"`
	Ask   int `json:"ask,omitempty"`
}

// sdkPages returns its result in parts, and asks after one of them.
var sdkPages = saga.Flow[sdkPagesArgs, string]{
	Info: saga.Info{Name: "pages", Asks: []steps.Question{sdkGoOn}, Yields: true},
	Run: func(r *saga.Run, in sdkPagesArgs) (string, error) {
		for i := 1; i <= in.Pages; i++ {
			if err := r.Yield(content.Textf("part %d", i)); err != nil {
				return "", err
			}
			if i == in.Ask {
				if _, err := saga.Ask(r, sdkGoOn); err != nil {
					return "", err
				}
			}
		}
		return "the end", nil
	},
}

func newKeys(t testing.TB) *codec.Keyset {
	t.Helper()
	keys, err := codec.NewKeyset()
	require.NoError(t, err)
	return keys
}
