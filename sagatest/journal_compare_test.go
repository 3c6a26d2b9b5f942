package sagatest_test

import (
	"bytes"
	"encoding/gob"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// gobs is an encoding that says nothing of what it has no place for.
type gobs struct{}

func (gobs) Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(v)
	return b.Bytes(), err
}

func (gobs) Unmarshal(data []byte, v any) error {
	return gob.NewDecoder(bytes.NewReader(data)).Decode(v)
}

// keeping is a case of a machine that keeps a state while it asks.
func keeping[S any](state S, e saga.Encoding, show func(S) string) sagatest.Case {
	type turn = saga.Turn[struct{}, S]
	m := saga.Machine[struct{}, S]{
		Info: saga.Info{Name: "keep", Asks: []steps.Question{askSure}}, Encoding: e, Start: func(t *turn) (saga.Next, error) {
			t.State = state
			return t.Ask("end", askSure)
		},
		Steps: saga.Steps[struct{}, S]{"end": func(t *turn) (saga.Next, error) {
			return t.Textf("%s", show(t.State))
		}},
	}
	return sagatest.Case{Tool: m, Args: struct{}{}, Script: []answer{accept("sure", sureForm{true})}}
}

func TestJournalOfAChangedState(t *testing.T) {
	type before struct {
		City string
		PIN  saga.Secret
	}
	type renamed struct {
		Town string
		PIN  saga.Secret
	}
	type more struct {
		City string
		PIN  saga.Secret
		New  struct{ At int }
	}
	record := func(t *testing.T, e saga.Encoding) {
		t.Helper()
		t.Chdir(t.TempDir())
		c := keeping(before{"rome", saga.NewSecret("1234")}, e, func(s before) string { return "To " + s.City })
		require.Empty(t, journal(t, c, true))
		require.Len(t, files(t), 1)
		require.Empty(t, journal(t, c, false))
	}
	t.Run("a field that an encoding loses in silence", func(t *testing.T) {
		record(t, gobs{})
		got := journal(t, keeping(renamed{"rome", saga.NewSecret("1234")}, gobs{}, func(s renamed) string { return "To " + s.Town }), false)
		assert.Contains(t, got, "broken rule: sagas under way survive a change of the tool")
		assert.Contains(t, got, "its result is another")
		assert.NotContains(t, got, "1234")
	})
	t.Run("a field that JSON refuses", func(t *testing.T) {
		record(t, nil)
		got := journal(t, keeping(renamed{}, nil, func(renamed) string { return "To rome" }), false)
		assert.Contains(t, got, "it cannot go on: ")
		assert.Contains(t, got, `tool "keep" cannot resume from this position: its state: json: unknown field "City"`)
	})
	t.Run("a field that was added", func(t *testing.T) {
		record(t, nil)
		assert.Empty(t, journal(t, keeping(more{City: "rome"}, nil, func(s more) string { return "To " + s.City }), false))
	})
}

func TestJournalComparesResults(t *testing.T) {
	type state struct{ City string }
	one := keeping(state{"rome"}, nil, func(s state) string { return "To " + s.City })
	other := keeping(state{"rome"}, nil, func(s state) string { return "Off to " + s.City })
	t.Chdir(t.TempDir())
	require.Empty(t, journal(t, one, true))
	got := journal(t, other, false)
	assert.Contains(t, got, "its result is another")
	assert.Contains(t, got, "run the test with SAGATEST_UPDATE=1")
	same := other
	same.Same = func(*sagatest.Played) string { return "the same" }
	assert.Contains(t, journal(t, same, false), "its result is another", "Same decides what is compared")
	assert.Empty(t, journal(t, other, true))
	assert.Empty(t, journal(t, other, false))
	assert.Contains(t, journal(t, one, false), "its result is another")
}
