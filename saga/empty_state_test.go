package saga_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type items struct {
	Items []string `json:"items,omitempty"`
}

// ownEmpty is a struct that decides itself how {} is read.
type ownEmpty struct{ read map[string]int }

func (o ownEmpty) MarshalJSON() ([]byte, error) {
	if o.read == nil {
		return []byte("null"), nil
	}
	return json.Marshal(o.read)
}

func (o *ownEmpty) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &o.read) }

// terse encodes *items as its items, so that an empty one is no byte at all.
type terse struct{}

func (terse) Marshal(v any) ([]byte, error) {
	if s := *v.(**items); s != nil && len(s.Items) > 0 {
		return []byte(s.Items[0]), nil
	}
	return nil, nil
}

func (terse) Unmarshal(b []byte, v any) error {
	if s := v.(**items); len(b) > 0 {
		*s = &items{[]string{string(b)}}
	} else {
		*s = &items{}
	}
	return nil
}

// comesBack returns the state that the second turn gets if the first leaves this one, and what was kept of it.
func comesBack[S any](t *testing.T, e saga.Encoding, left S, edit func(*engine.Encoded)) (got S, kept string) {
	t.Helper()
	s := play(t, saga.Machine[empty, S]{
		Info: saga.Info{Name: "single", Asks: []steps.Question{askConfirm}}, Encoding: e,
		Start: func(t *saga.Turn[empty, S]) (saga.Next, error) {
			t.State = left
			return t.Ask("again", askConfirm)
		},
		Steps: saga.Steps[empty, S]{"again": func(t *saga.Turn[empty, S]) (saga.Next, error) {
			got = t.State
			return t.Textf("done")
		}},
	})
	encoded := s.start(`{}`).Position.Encode()
	if edit != nil {
		edit(&encoded)
		s.pos = &engine.Position{ID: s.pos.ID, Turn: s.pos.Turn, Tool: s.pos.Tool}
		require.NoError(t, s.pos.Restore(encoded))
	}
	require.Equal(t, "done", text(t, s.answer(accept("confirm", yes))))
	return got, string(encoded.State)
}

func TestEmptyStateIsNotNone(t *testing.T) {
	pointer, _ := comesBack(t, nil, &items{}, nil)
	assert.Equal(t, &items{}, pointer)
	made, _ := comesBack(t, nil, map[string]int{}, nil)
	assert.Equal(t, map[string]int{}, made)
	some, _ := comesBack[any](t, nil, map[string]any{}, nil)
	assert.Equal(t, map[string]any{}, some)
	own, _ := comesBack(t, nil, ownEmpty{map[string]int{}}, nil)
	assert.Equal(t, ownEmpty{map[string]int{}}, own)
	encoded, _ := comesBack(t, strictJSON{}, &items{}, nil)
	assert.Equal(t, &items{}, encoded)
	noByte, _ := comesBack(t, terse{}, &items{}, nil)
	assert.Equal(t, &items{}, noByte)

	none, _ := comesBack[*items](t, nil, nil, nil)
	assert.Nil(t, none)
	noMap, _ := comesBack[map[string]int](t, nil, nil, nil)
	assert.Nil(t, noMap)
	plain, kept := comesBack(t, nil, items{}, nil)
	assert.Zero(t, plain)
	assert.Empty(t, kept, "a struct without a value takes no place in a token")
}

// Earlier releases kept nothing of any state that encoded to {}.
func TestEmptyStatesOfEarlierReleasesOpen(t *testing.T) {
	unkept := func(e *engine.Encoded) {
		require.Equal(t, "{}", string(e.State))
		e.State = nil
	}
	for _, e := range []saga.Encoding{nil, strictJSON{}} {
		got, _ := comesBack(t, e, &items{}, unkept)
		assert.Nil(t, got)
	}
	upgrade := saga.From(func(old *items) (bool, error) { return old != nil, nil })
	for e, made := range map[saga.Encoding]bool{strictJSON{}: false, terse{}: true} {
		got, err := upgrade(e, nil, nil)
		require.NoError(t, err)
		assert.Equal(t, made, got)
	}
}
