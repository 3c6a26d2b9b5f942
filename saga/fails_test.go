package saga_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What a saga sees of an effect's failure is the same in the run that performs the effect and in each later one: the
// text, the errors of Fails that were wrapped, and what the caller may read.
func TestFailuresAreTheSameInEveryRun(t *testing.T) {
	errSoldOut, errClosed, errOther := errors.New("sold out"), errors.New("closed"), errors.New("another")
	tests := map[string]struct {
		err  error
		is   []error
		says string // what the caller reads if the flow returns the error
	}{
		"declared":             {err: fmt.Errorf("seat 12: %w", errSoldOut), is: []error{errSoldOut}},
		"two of them":          {err: errors.Join(errSoldOut, errClosed), is: []error{errSoldOut, errClosed}},
		"not declared":         {err: fmt.Errorf("seat 12: %w", errOther)},
		"same text, not wraps": {err: errors.New("sold out")},
		"for the caller":       {err: fmt.Errorf("seat 12: %w", saga.Failf("No seat is left.")), says: "No seat is left."},
		"for both":             {err: errors.Join(saga.Failf("No seat is left."), errClosed), is: []error{errClosed}, says: "No seat is left."},
	}
	for name, test := range tests {
		for _, refused := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, refused=%t", name, refused), func(t *testing.T) {
				var runs []string
				e := &saga.Effect[string, string]{
					Name: "hold", Tries: 1, Fails: []error{errSoldOut, errClosed},
					Do: func(context.Context, saga.Key, string) (string, error) {
						if refused {
							return "", saga.Refused(test.err)
						}
						return "", test.err
					},
				}
				s := play(t, saga.Flow[empty, string]{
					Info: saga.Info{Name: "hold", Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{e}},
					Run: func(r *saga.Run, _ empty) (string, error) {
						_, err := saga.Do(r, e, "12")
						seen := err.Error()
						for _, is := range []error{errSoldOut, errClosed, errOther} {
							assert.Equal(t, slices.Contains(test.is, is), errors.Is(err, is), "%v", is)
							seen += fmt.Sprint(" ", errors.Is(err, is))
						}
						failed, ok := errors.AsType[*saga.EffectError](err)
						assert.True(t, ok && failed.Unknown == !refused)
						runs = append(runs, seen)
						if _, err := saga.Ask(r, askConfirm); err != nil {
							return "", err
						}
						return "", err
					},
				})
				s.start(`{}`)
				out := s.answer(accept("confirm", yes))
				if assert.Len(t, runs, 2) {
					assert.Equal(t, runs[0], runs[1])
					assert.Contains(t, runs[0], test.err.Error())
				}
				if test.says == "" {
					test.says = "The tool failed. Its operator can find"
				}
				assert.Contains(t, text(t, out), test.says)
			})
		}
	}
}

// What an effect returns is what is recorded, already in the run that performs it; and each try has an input of its own.
func TestResultsAreTheSameInEveryRun(t *testing.T) {
	type seats struct {
		Any  any       `json:"any"`
		At   time.Time `json:"at"`
		List []string  `json:"list,omitempty"`
	}
	var runs []seats
	var inputs []string
	e := &saga.Effect[seats, seats]{Name: "hold", Tries: 2, Do: func(_ context.Context, _ saga.Key, in seats) (seats, error) {
		inputs = append(inputs, in.List[0])
		in.List[0] = "changed"
		if len(inputs) == 1 {
			return seats{}, errors.New("try again")
		}
		return seats{Any: 12345678, At: time.Now(), List: []string{}}, nil
	}}
	s := play(t, saga.Flow[empty, string]{
		Info: saga.Info{Name: "hold", Asks: []steps.Question{askConfirm}, Effects: []saga.Declared{e}},
		Run: func(r *saga.Run, _ empty) (string, error) {
			got, err := saga.Do(r, e, seats{List: []string{"12"}})
			if err == nil {
				runs = append(runs, got)
				_, err = saga.Ask(r, askConfirm)
			}
			return "held", err
		},
	})
	s.start(`{}`)
	assert.Equal(t, "held", text(t, s.answer(accept("confirm", yes))))
	if assert.Len(t, runs, 2) {
		assert.Equal(t, runs[0], runs[1])
	}
	assert.Equal(t, []string{"12", "12"}, inputs)
}
