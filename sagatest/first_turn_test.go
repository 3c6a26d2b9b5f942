package sagatest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Nobody can take a first turn again. If it breaks off, what it did is undone, as on a
// server; a later turn can be taken again, and is not.
func TestFirstTurnThatBreaksOff(t *testing.T) {
	for name, c := range map[string]struct {
		input  string // of the effect
		panics bool
	}{
		"by a panic":                        {"a room", true},
		"by a state that no token can hold": {strings.Repeat("x", 300<<10), false},
	} {
		t.Run(name, func(t *testing.T) {
			play := func(script ...answer) (*hotel, *sagatest.Played) {
				h := newHotel()
				return h, sagatest.Play(t, saga.Flow[struct{}, string]{
					Info: saga.Info{Name: "visit", Asks: []steps.Question{askCity, askSure}, Effects: []saga.Declared{h.room}},
					Run: func(r *saga.Run, _ struct{}) (string, error) {
						if len(script) > 0 {
							if _, err := saga.Ask(r, askSure); err != nil {
								return "", err
							}
						}
						if _, err := saga.Do(r, h.room, c.input); err != nil {
							return "", err
						}
						if c.panics {
							panic("oops")
						}
						_, err := saga.Ask(r, askCity)
						return "", err
					},
				}, nil, script...)
			}
			var undone *engine.UndoneError
			h, first := play()
			require.ErrorAs(t, first.Err, &undone)
			assert.False(t, first.Suspended)
			assert.Equal(t, []string{"hold-room", "undo hold-room"}, first.Effects())
			assert.Empty(t, h.held)

			h, later := play(accept("sure", sureForm{true}))
			require.Error(t, later.Err)
			assert.NotErrorAs(t, later.Err, &undone)
			assert.True(t, later.Suspended, "the client can send the turn again")
			assert.Equal(t, []string{"hold-room"}, later.Effects())
			assert.Len(t, h.held, 1)
		})
	}
}

// An answer can be that of every later time, too.
func TestAlways(t *testing.T) {
	guess := func(times int) saga.Definition {
		return saga.Flow[struct{}, string]{
			Info: saga.Info{Name: "guess", Asks: []steps.Question{askCity}},
			Run: func(r *saga.Run, _ struct{}) (string, error) {
				said := ""
				for range times {
					city, err := saga.Ask(r, askCity)
					if err != nil {
						return "", err
					}
					said += city.City + " "
				}
				return said, nil
			},
		}
	}
	rome, oslo := accept("city", cityForm{"rome"}), accept("city", cityForm{"oslo"})
	assert.Equal(t, "rome oslo oslo oslo ", sagatest.Play(t, guess(4), nil, rome, oslo.Always()).Text())
	assert.Equal(t, "rome oslo ", sagatest.Play(t, guess(2), nil, rome, oslo.Always()).Text())
	sagatest.Sweep(t, sagatest.Case{Tool: guess(3), Script: []answer{rome.Always()}})

	never := reported(t, func(t testing.TB) { sagatest.Play(t, guess(1), nil, rome, oslo.Always()) })
	require.Len(t, never.errors, 1)
	assert.Contains(t, never.errors[0], `answers that the tool never asked for: "city"`)
	behind := reported(t, func(t testing.TB) { sagatest.Play(t, guess(3), nil, rome.Always(), oslo) })
	require.Len(t, behind.errors, 1)
	assert.Contains(t, behind.errors[0], `answers that the tool never asked for: "city"`)
	if testing.Short() {
		return // a thousand turns
	}
	endless := reported(t, func(t testing.TB) {
		sagatest.Play(t, pausing(), nil)
	})
	require.Len(t, endless.errors, 1)
	assert.Contains(t, endless.errors[0], "has not ended after 1000 turns")
}

// pausing is a tool that never ends.
func pausing() saga.Definition {
	type turn = saga.Turn[struct{}, struct{}]
	pause := func(t *turn) (saga.Next, error) { return t.Pause("again") }
	return saga.Machine[struct{}, struct{}]{Info: saga.Info{Name: "pausing"}, Start: pause, Steps: saga.Steps[struct{}, struct{}]{"again": pause}}
}

// The saga's id can be chosen, and with it what is made of it.
func TestSagaID(t *testing.T) {
	h := newHotel()
	tool := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "id", Asks: []steps.Question{askSure}, Effects: []saga.Declared{h.room}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			if _, err := saga.Ask(r, askSure); err != nil {
				return "", err
			}
			_, err := saga.Do(r, h.room, "a room")
			return r.ID().String(), err
		},
	}
	yes := accept("sure", sureForm{true})
	keys := map[saga.Key]bool{}
	for _, id := range []saga.ID{{}, {7}, {8}, {7}} {
		p := sagatest.Player{ID: id}.Play(t, tool, nil, yes)
		if id != (saga.ID{}) {
			assert.Equal(t, id.String(), p.Text())
		}
		keys[p.Calls[0].Key] = true
	}
	assert.Len(t, keys, 3)
	sagatest.Sweep(t, sagatest.Case{Tool: tool, ID: saga.ID{9}, Script: []answer{yes}, Skip: []string{"forks"},
		Check: func(t testing.TB, e *sagatest.Played) {
			if e.Good() {
				assert.Equal(t, saga.ID{9}.String(), e.Text())
			}
		}})
}
