package saga_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// pausing is a flow of a revision.
func pausing(revision uint32, run func(r *saga.Run) error) saga.Definition {
	return saga.Flow[empty, string]{
		Info: saga.Info{Name: "pausing", Revision: revision, Asks: []steps.Question{askConfirm}, Yields: true},
		Run: func(r *saga.Run, _ empty) (string, error) {
			if err := run(r); err != nil {
				return "", err
			}
			return "done", nil
		},
	}
}

func yields(names ...string) func(r *saga.Run) error {
	return func(r *saga.Run) error {
		for _, name := range names {
			if err := r.Yield(content.Textf("%s", name)); err != nil {
				return err
			}
		}
		return nil
	}
}

// at has the saga go on at a time.
func (s *session) at(now time.Time, answers ...steps.Answer) (*engine.Outcome, error) {
	out, err := s.tool.Resume(s.t.Context(), s.pos, engine.Call{Now: now, Client: steps.AllFeatures(), Answers: answers})
	if err == nil {
		s.keep(out)
	}
	return out, err
}

func (s *session) becomes(d saga.Definition) {
	tool, err := d.Compile()
	require.NoError(s.t, err)
	s.tool = tool
}

func TestPausesThatDisappear(t *testing.T) {
	confirm := func(r *saga.Run) error {
		_, err := saga.Ask(r, askConfirm)
		return err
	}
	sleep := func(r *saga.Run) error { return r.Sleep(time.Hour) }
	until := func(r *saga.Run) error { return r.Until(testNow.Add(time.Hour)) }
	for name, test := range map[string]struct {
		first, then func(r *saga.Run) error
		want        string
	}{
		"a yield":               {yields("a"), confirm, `recorded is 1 calls of Yield, but now came after 0 of them question "confirm"`},
		"the last yield":        {yields("a"), yields(), "recorded is 1 calls of Yield, but now came after 0 of them the end of the flow"},
		"a sleep":               {sleep, confirm, `recorded is 1 calls of Now, Sleep and Until, but now came after 0 of them question "confirm"`},
		"a sleep until a time":  {until, yields("a"), `but now came after 0 of them a call of "Yield", which is new`},
		"a sleep before a part": {sleep, yields(), "the end of the flow"},
	} {
		t.Run(name, func(t *testing.T) {
			s := play(t, pausing(0, test.first))
			s.start(`{}`)
			s.becomes(pausing(0, test.then))
			out, err := s.at(testNow.Add(2 * time.Hour))
			require.NoError(t, err)
			var diverged *engine.DivergedError
			require.ErrorAs(t, out.Err, &diverged)
			assert.ErrorContains(t, out.Err, test.want)
			assert.Empty(t, diverged.Step)
		})
	}
}

// A sleep that is over is over, whatever another machine's clock says.
func TestClocksThatGoBackAfterASleep(t *testing.T) {
	runs := 0
	s := play(t, pausing(0, func(r *saga.Run) error {
		runs++
		if err := errors.Join(r.Sleep(0), r.Sleep(-time.Second), r.Until(testNow)); err != nil {
			return err
		}
		if err := r.Sleep(time.Hour); err != nil {
			return err
		}
		if _, err := saga.Ask(r, askConfirm); err != nil {
			return err
		}
		return r.Until(testNow.Add(3 * time.Hour))
	}))
	out := s.start(`{}`)
	wake := testNow.Add(time.Hour)
	assert.Equal(t, wake, out.Position.Wake)
	assert.Empty(t, out.Steps)
	early := &engine.EarlyError{At: wake}
	_, err := s.at(wake.Add(-time.Second))
	require.Equal(t, early, err)
	assert.EqualError(t, err, "the saga sleeps until 2026-11-21T13:00:00Z; come back then")
	assert.Equal(t, 1, runs)
	out, err = s.at(wake)
	require.NoError(t, err)
	require.Len(t, out.Steps, 1)
	assert.Zero(t, out.Position.Wake)
	out, err = s.at(testNow, accept("confirm", yes))
	require.NoError(t, err)
	require.NoError(t, out.Err)
	assert.Equal(t, testNow.Add(3*time.Hour), out.Position.Wake)
	out, err = s.at(testNow.Add(4 * time.Hour))
	require.NoError(t, err)
	assert.Equal(t, "done", text(t, out))
}

// What was given stays given across revisions, even where the new one gives less.
func TestYieldsAcrossRevisions(t *testing.T) {
	s := play(t, pausing(0, yields("a", "b", "c")))
	s.start(`{}`)
	out, err := s.at(testNow)
	require.NoError(t, err)
	require.Equal(t, "b", out.Yielded.Text())
	s.becomes(pausing(1, func(r *saga.Run) error {
		if err := yields("a")(r); err != nil {
			return err
		}
		if _, err := saga.Ask(r, askConfirm); err != nil {
			return err
		}
		return yields("new")(r)
	}))
	out, err = s.at(testNow)
	require.NoError(t, err)
	require.Len(t, out.Steps, 1)
	out, err = s.at(testNow, accept("confirm", yes))
	require.NoError(t, err)
	require.NoError(t, out.Err)
	assert.Equal(t, "new", out.Yielded.Text())
	out, err = s.at(testNow)
	require.NoError(t, err)
	assert.Equal(t, "done", text(t, out))
}

func TestPausesThatAreRefused(t *testing.T) {
	type turn = saga.Turn[empty, empty]
	for want, next := range map[string]func(t *turn) (saga.Next, error){
		"Yield: the tool does not say that it yields; set Yields in its Info": func(t *turn) (saga.Next, error) { return t.Yield("again", content.Textf("x")) },
		`Yield: there is no step function "nowhere"`:                          func(t *turn) (saga.Next, error) { return t.Yield("nowhere") },
		`Sleep: there is no step function "nowhere"`:                          func(t *turn) (saga.Next, error) { return t.Sleep(1, "nowhere") },
		`Until: there is no step function "nowhere"`:                          func(t *turn) (saga.Next, error) { return t.Until(time.Time{}, "nowhere") },
	} {
		m := single(next)
		out, err := play(t, m).tool.Start(t.Context(), engine.Call{ID: testID, Now: testNow, Client: steps.AllFeatures()})
		require.NoError(t, err)
		assert.ErrorContains(t, out.Err, want)
	}
	for want, run := range map[string]func(r *saga.Run) error{
		"no block was given":       func(r *saga.Run) error { return r.Yield() },
		"block 1 is nil":           func(r *saga.Run) error { return r.Yield(content.Textf("x"), nil) },
		"the flow yielded a part":  func(r *saga.Run) error { _ = r.Yield(content.Textf("x")); return nil },
		"the flow went to sleep":   func(r *saga.Run) error { _ = r.Sleep(1); return nil },
		"error that sleeping retu": func(r *saga.Run) error { _ = r.Until(testNow.Add(1)); return nil },
	} {
		out := play(t, pausing(0, run)).start(`{}`)
		assert.ErrorContains(t, out.Err, want)
	}
}

// What no token and no ledger could keep is refused at once, and again when the flow runs again.
func TestSleepsThatAreTooLong(t *testing.T) {
	type turn = saga.Turn[empty, empty]
	century := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, d := range map[string]saga.Definition{
		"a flow's Sleep":    pausing(0, func(r *saga.Run) error { return r.Sleep(1<<63 - 1) }),
		"a flow's Until":    pausing(0, func(r *saga.Run) error { return r.Until(time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)) }),
		"a machine's Sleep": single(func(t *turn) (saga.Next, error) { return t.Sleep(1<<63-1, engine.StartStep) }),
		"a machine's Until": single(func(t *turn) (saga.Next, error) { return t.Until(century, engine.StartStep) }),
	} {
		out := play(t, d).start(`{}`)
		assert.ErrorContains(t, out.Err, "but none sleeps beyond 2099; sleep for less", name)
	}
	play(t, pausing(0, func(r *saga.Run) error { return r.Until(century.Add(-1)) })).start(`{}`)

	s := play(t, pausing(0, func(r *saga.Run) error {
		if err := r.Sleep(1<<63 - 1); err == nil {
			return errors.New("it slept")
		}
		_, err := saga.Ask(r, askConfirm)
		return err
	}))
	s.start(`{}`)
	assert.Equal(t, "done", text(t, s.answer(accept("confirm", yes))))
}

// The texts of the errors, which logs show.
func TestTextsOfPauses(t *testing.T) {
	for want, run := range map[string]func(r *saga.Run) error{
		"the saga sleeps until 2026-11-21T12:01:00Z; the flow must return this error": func(r *saga.Run) error { return r.Sleep(time.Minute) },
		"the saga has yielded a part of its result; the flow must return this error":  yields("x"),
	} {
		play(t, pausing(0, func(r *saga.Run) error {
			err := run(r)
			assert.EqualError(t, err, want)
			return err
		})).start(`{}`)
	}
}
