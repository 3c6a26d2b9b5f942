package saga_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
)

func unrecordable[In, Out any]() saga.Declared {
	return &saga.Effect[In, Out]{Name: "x", Do: func(context.Context, saga.Key, In) (out Out, err error) { return out, nil }}
}

type (
	Numbered  struct{ ID int }
	Otherwise struct{ ID int }
)

// dated encodes itself.
type dated struct {
	time.Time
	Room string
}

func (d dated) MarshalText() ([]byte, error) { return []byte(d.Room), nil }

func (d *dated) UnmarshalText(text []byte) error {
	d.Room = string(text)
	return nil
}

func (d dated) MarshalJSON() ([]byte, error) { return json.Marshal(d.Room) }

func (d *dated) UnmarshalJSON(raw []byte) error { return json.Unmarshal(raw, &d.Room) }

// clockwork encodes itself.
type clockwork struct{ At string }

func (h clockwork) MarshalJSON() ([]byte, error) { return json.Marshal(h.At) }

func (h *clockwork) UnmarshalJSON(raw []byte) error { return json.Unmarshal(raw, &h.At) }

// redacted does not say all that it has.
type redacted struct{ Number string }

func (redacted) MarshalJSON() ([]byte, error) { return []byte(`{"Number":"****"}`), nil }

// label is for people.
type label int

func (label) MarshalText() ([]byte, error) { return []byte("x"), nil }

func unrecordableAs[In any](name string) saga.Declared {
	return &saga.Effect[In, int]{Name: name, Do: func(context.Context, saga.Key, In) (int, error) { return 0, nil }}
}

func TestEffectDeclarations(t *testing.T) {
	w := newWorld()
	tests := map[string][]saga.Declared{
		"is nil":      {nil},
		"has no Name": {w.effect("")},
		`Effects[0] ("a b") has a name that cannot be used; a name is 1 to 64 characters`: {w.effect("a b")},
		"has no Do": {&saga.Effect[int, int]{Name: "x"}},
		"has Fails of which one is nil or has no text, or two have the same text": {&saga.Effect[int, int]{
			Name: "x", Do: func(context.Context, saga.Key, int) (int, error) { return 0, nil }, Fails: []error{errors.New("a"), errors.New("a")},
		}},
		`two effects have the name "a"`:                                                            {w.effect("a"), w.effect("a")},
		`effect "x" cannot be recorded: field hidden of its input is not exported`:                 {unrecordable[struct{ hidden int }, int]()},
		"field C of its result is a chan":                                                          {unrecordable[int, struct{ C chan int }]()},
		"its input's field In holds a Secret in a slice":                                           {unrecordable[struct{ In []saga.Secret }, int]()},
		"its result holds a Secret in a ptr":                                                       {unrecordable[int, *saga.Secret]()},
		"its result's field key is a Secret but not exported":                                      {unrecordable[int, struct{ key saga.Secret }]()},
		"field username of field User of its input's element is not exported, so it would be lost": {unrecordable[url.URL, int]()},
		`field Inner of its input has the JSON of its embedded field clockwork alone`: {unrecordable[struct {
			Inner struct {
				clockwork
				Room string
			}
		}, int]()},
		"its result's element encodes itself as JSON but":                                                         {unrecordable[int, []redacted]()},
		"its input has keys of the type saga_test.label, which encodes itself as text but does not decode itself": {unrecordable[map[label]int, int]()},
		"its result encodes itself as JSON but does not decode itself":                                            {unrecordable[int, redacted]()},
		`fields ID and ID of its input are both "ID" in JSON, so one would be lost`: {unrecordable[struct {
			Numbered
			Otherwise
		}, int]()},
		`its input has the JSON of its embedded field Time alone, so the others would be lost: give that field a name`: {unrecordable[struct {
			time.Time
			Room string
		}, int]()},
		`field At of its result has the JSON of its embedded field Time alone`: {unrecordable[int, struct {
			At struct {
				*time.Time
				Seat int
			}
		}]()},
		`fields ID and ID of its input's element are both "ID"`: {unrecordable[[]struct {
			*Numbered
			ID int
		}, int]()},
	}
	for want, effects := range tests {
		f := booking(w)
		f.Effects = effects
		_, err := f.Compile()
		assert.ErrorContains(t, err, want)
	}
	f := booking(w)
	f.Effects = append(slices.Clone(f.Effects), unrecordable[struct {
		Numbered `json:"one"`
		Otherwise
	}, Numbered](), unrecordableAs[dated]("dated"), unrecordableAs[struct{ time.Time }]("time"))
	_, err := f.Compile()
	require.NoError(t, err, "a name keeps them apart")
	f = booking(w)
	f.Effects = slices.Clone(f.Effects)[1:]
	out := play(t, f).start(`{}`)
	assert.ErrorContains(t, out.Err, `effect "hotel" is not declared`)
}
