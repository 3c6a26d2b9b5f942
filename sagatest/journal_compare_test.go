package sagatest_test

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"os"
	"strings"
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

func TestJournalComparesStates(t *testing.T) {
	type before struct {
		City  string
		Codes []int64
		PIN   saga.Secret
	}
	type renamed struct {
		Town  string
		Codes []int64
		PIN   saga.Secret
	}
	type more struct {
		City  string
		Codes []int64
		PIN   saga.Secret
		New   struct{ At int }
	}
	blind := "It is done."
	first := func(e saga.Encoding) sagatest.Case {
		return keeping(before{"rome", []int64{7}, saga.NewSecret("1234")}, e, func(before) string { return blind })
	}
	recorded := func(t *testing.T, e saga.Encoding) string {
		t.Helper()
		t.Chdir(t.TempDir())
		require.Empty(t, journal(t, first(e), true))
		require.Len(t, files(t), 1)
		b, err := os.ReadFile(files(t)[0])
		require.NoError(t, err)
		require.Empty(t, journal(t, first(e), false))
		return string(b)
	}
	t.Run("a field that an encoding loses in silence", func(t *testing.T) {
		recorded(t, gobs{})
		for _, update := range []bool{false, true} {
			got := journal(t, keeping(renamed{Codes: []int64{7}, PIN: saga.NewSecret("1234")}, gobs{}, func(renamed) string { return blind }), update)
			assert.Contains(t, got, "broken rule: sagas under way survive a change of the tool")
			assert.Contains(t, got, "what it holds is not what it was: state.City is lost or another")
			assert.Contains(t, got, "needs a new Revision, with an Upgrade")
			assert.NotContains(t, got, "1234")
		}
	})
	t.Run("a field that JSON refuses", func(t *testing.T) {
		recorded(t, nil)
		got := journal(t, keeping(renamed{}, nil, func(renamed) string { return blind }), false)
		assert.Contains(t, got, `it cannot go on: tool "keep" cannot resume from this position: its state: json: unknown field "City"`)
	})
	t.Run("a field that was added", func(t *testing.T) {
		recorded(t, nil)
		assert.Empty(t, journal(t, keeping(more{}, nil, func(more) string { return blind }), false))
	})
	t.Run("what is recorded shows no secrets", func(t *testing.T) {
		b := recorded(t, nil)
		assert.NotContains(t, b, "1234")
		assert.Contains(t, b, `"City": "rome"`)
		assert.Contains(t, b, "[secret ")
	})
	t.Run("a value that means something else", func(t *testing.T) {
		b := recorded(t, nil)
		var e, state map[string]any
		for name, change := range map[string]func(){
			"state.City":     func() { state["City"] = "oslo" },
			"state.PIN":      func() { state["PIN"] = "[secret 00000000]" },
			"state.Codes[0]": func() { state["Codes"] = []any{8} },
			"state.Codes":    func() { state["Codes"] = []any{7, 8} },
			"state.Gone":     func() { state["Gone"] = map[string]any{"x": 1} },
		} {
			require.NoError(t, json.Unmarshal([]byte(b), &e))
			state = e["holds"].(map[string]any)["state"].(map[string]any)
			change()
			changed, err := json.Marshal(e)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(files(t)[0], changed, 0o666))
			assert.Contains(t, journal(t, first(nil), false), name+" is lost or another")
		}
	})
	t.Run("a number of more digits than a float has", func(t *testing.T) {
		c := keeping(before{Codes: []int64{9007199254740993}}, nil, func(before) string { return blind })
		t.Chdir(t.TempDir())
		require.Empty(t, journal(t, c, true))
		b, err := os.ReadFile(files(t)[0])
		require.NoError(t, err)
		changed := strings.Replace(string(b), "9007199254740993", "9007199254740992", 1)
		require.NotEqual(t, string(b), changed)
		require.NoError(t, os.WriteFile(files(t)[0], []byte(changed), 0o666))
		assert.Contains(t, journal(t, c, false), "state.Codes[0] is lost or another")
	})
	t.Run("an older record gets what it lacks", func(t *testing.T) {
		b := recorded(t, nil)
		var e map[string]any
		require.NoError(t, json.Unmarshal([]byte(b), &e))
		delete(e, "holds")
		delete(e, "result")
		old, err := json.Marshal(e)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(files(t)[0], old, 0o666))
		assert.Empty(t, journal(t, first(nil), false))
		now, err := os.ReadFile(files(t)[0])
		require.NoError(t, err)
		assert.Equal(t, string(old), string(now), "nothing is written without being asked")
		assert.Empty(t, journal(t, first(nil), true))
		now, err = os.ReadFile(files(t)[0])
		require.NoError(t, err)
		assert.Equal(t, b, string(now))
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
