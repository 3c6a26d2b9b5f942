package sagatest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// The sagas that these tools had under way when they were recorded still go on.
func TestJournals(t *testing.T) {
	sagatest.Journal(t, agencyCase(func(a *agency) saga.Definition { return booking(a) }))
	sagatest.Journal(t, agencyCase(func(a *agency) saga.Definition { return bookingMachine(a) }))
	sagatest.Journal(t, sagatest.Case{Tool: complextool.Tool, Script: []answer{
		accept("step-elicitation-A", map[string]any{"target": "production"}), say("step-sampling-B", "Yes, it is safe."),
	}})
}

// journal runs Journal in the present directory and returns what it reports.
func journal(t *testing.T, c sagatest.Case, update bool) string {
	t.Helper()
	value := ""
	if update {
		value = "1"
	}
	t.Setenv("SAGATEST_UPDATE", value)
	f := reported(t, func(t testing.TB) { sagatest.Journal(t, c) })
	return strings.Join(f.errors, "\n")
}

func files(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("testdata/sagas", "*", "*", "*"))
	require.NoError(t, err)
	return found
}

func TestJournalRecordsAndProves(t *testing.T) {
	t.Chdir(t.TempDir())
	c := agencyCase(func(a *agency) saga.Definition { return booking(a) })
	got := journal(t, c, false)
	assert.Contains(t, got, `the journal of revision 0 of "book" lacks the suspension at "day", "city"`)
	assert.Contains(t, got, "run the test with SAGATEST_UPDATE=1 in the environment, and commit testdata/sagas/book/0/01-day-city.json")
	assert.Empty(t, files(t))

	assert.Empty(t, journal(t, c, true))
	assert.Equal(t, []string{"testdata/sagas/book/0/01-day-city.json", "testdata/sagas/book/0/02-wish.json", "testdata/sagas/book/0/03-sure.json"}, files(t))
	first, err := os.ReadFile(files(t)[2])
	require.NoError(t, err)
	assert.Contains(t, string(first), `"says": "Shall I book rome on 2026-12-24?"`)

	assert.Empty(t, journal(t, c, false))
	require.NoError(t, os.RemoveAll("testdata/sagas"))
	assert.Empty(t, journal(t, c, true))
	again, err := os.ReadFile(files(t)[2])
	require.NoError(t, err)
	assert.Equal(t, string(first), string(again), "a record of the same is the same")
}

// Files have names that a Go module may have, whatever is waited for. A name that was cut off otherwise is still known.
func TestJournalOfLongNames(t *testing.T) {
	t.Chdir(t.TempDir())
	var asks []steps.Question
	var requests []steps.Request
	var script []sagatest.Answer
	for i := range 3 {
		id := strings.Repeat(string(rune('a'+i)), 60)
		ask := &steps.Form[sureForm]{ID: id, Message: "Sure?"}
		asks, requests = append(asks, ask), append(requests, ask)
		script = append(script, accept(id, sureForm{true}))
	}
	c := sagatest.Case{Script: script, Tool: saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "long", Asks: asks},
		Run:  func(r *saga.Run, _ struct{}) (string, error) { return "done", r.AskAll(requests...) },
	}}
	assert.Empty(t, journal(t, c, true))
	assert.Empty(t, journal(t, c, false))
	require.Len(t, files(t), 1)
	name := files(t)[0]
	assert.Regexp(t, `^testdata/sagas/long/0/01-a+-b+\.json$`, name)
	require.NoError(t, os.Rename(name, strings.TrimSuffix(name, ".json")+"….json"))
	assert.Empty(t, journal(t, c, false))
}

// changed returns the case with the tool changed after the journal was recorded.
func changed(t *testing.T, change func(f *saga.Flow[tripArgs, string])) sagatest.Case {
	t.Helper()
	t.Chdir(t.TempDir())
	require.Empty(t, journal(t, agencyCase(func(a *agency) saga.Definition { return booking(a) }), true))
	return agencyCase(func(a *agency) saga.Definition {
		f := booking(a)
		change(&f)
		return f
	})
}

func TestJournalOfAChangedTool(t *testing.T) {
	askMeal := &steps.Form[cityForm]{ID: "meal", Message: "What will you eat?"}
	withMeal := func(f *saga.Flow[tripArgs, string]) {
		run := f.Run
		f.Asks = append(f.Asks, askMeal)
		f.Run = func(r *saga.Run, in tripArgs) (string, error) {
			if _, err := saga.Ask(r, askMeal); err != nil {
				return "", err
			}
			return run(r, in)
		}
	}
	t.Run("with a new revision", func(t *testing.T) {
		c := changed(t, func(f *saga.Flow[tripArgs, string]) { f.Revision = 1; withMeal(f) })
		c.Script = append(c.Script, accept("meal", cityForm{"oslo"}))
		got := journal(t, c, false)
		assert.Contains(t, got, `the journal of revision 1 of "book" lacks`)
		assert.NotContains(t, got, "broken rule")
		assert.Empty(t, journal(t, c, true))
		assert.Len(t, files(t), 7)
	})
	t.Run("without a new revision", func(t *testing.T) {
		c := changed(t, withMeal)
		c.Script = append(c.Script, accept("meal", cityForm{"oslo"}))
		got := journal(t, c, true)
		assert.Contains(t, got, "broken rule: sagas under way survive a change of the tool")
		assert.Contains(t, got, `scenario: a saga of revision 0 waits for "day", "city" and goes on now`)
		assert.Contains(t, got, "recorded: testdata/sagas/book/0/01-day-city.json")
		assert.Contains(t, got, `recorded is question "day", but now came question "meal"`)
		assert.Contains(t, got, "raise Revision with every change")
		assert.Contains(t, got, "nothing was written to the journal")
		assert.Len(t, files(t), 3)
	})
	t.Run("a revision that is no longer read", func(t *testing.T) {
		c := changed(t, func(f *saga.Flow[tripArgs, string]) { f.Revision, f.Oldest = 2, 2 })
		assert.Contains(t, journal(t, c, true), "revision 0 is no longer read by revision 2 of the tool")
		c.Retired = 1
		assert.Empty(t, journal(t, c, true))
	})
	t.Run("a retired revision whose effect is gone", func(t *testing.T) {
		c := changed(t, func(f *saga.Flow[tripArgs, string]) {
			f.Revision, f.Oldest, f.Effects = 2, 2, f.Effects[1:]
			f.Asks, f.Run = f.Asks[:1], func(r *saga.Run, _ tripArgs) (string, error) { _, err := saga.Ask(r, askDay); return "", err }
		})
		c.Retired, c.Script, c.New = 2, script[:1], nil
		c.Tool = func() saga.Definition {
			f := booking(newAgency())
			f.Revision, f.Oldest, f.Effects = 2, 2, f.Effects[1:]
			f.Asks, f.Run = f.Asks[:1], func(r *saga.Run, _ tripArgs) (string, error) { _, err := saga.Ask(r, askDay); return "", err }
			return f
		}()
		got := journal(t, c, true)
		assert.Contains(t, got, "it is given up, but cannot be undone")
		assert.Contains(t, got, `undo of "room": the tool no longer declares it`)
	})
	t.Run("an older revision", func(t *testing.T) {
		c := changed(t, func(f *saga.Flow[tripArgs, string]) { f.Revision = 4 })
		require.Empty(t, journal(t, c, true))
		old := agencyCase(func(a *agency) saga.Definition { return booking(a) })
		assert.Contains(t, journal(t, old, true), "it was recorded by revision 4, but the tool is of revision 0")
	})
}

func TestJournalOfAMachine(t *testing.T) {
	t.Chdir(t.TempDir())
	require.Empty(t, journal(t, agencyCase(func(a *agency) saga.Definition { return bookingMachine(a) }), true))
	renamed := func(names map[string]string) sagatest.Case {
		return agencyCase(func(a *agency) saga.Definition {
			m := bookingMachine(a)
			m.Steps["wish"] = m.Steps["wished"]
			delete(m.Steps, "wished")
			where := m.Steps["where"]
			m.Steps["where"] = func(t *bookTurn) (saga.Next, error) {
				if next, err := where(t); err == nil || !strings.Contains(err.Error(), "no step function") {
					return next, err
				}
				return t.Ask("wish", askWish.With(steps.Promptf("Which seat?")))
			}
			m.Renamed = names
			return m
		})
	}
	got := journal(t, renamed(nil), true)
	assert.Contains(t, got, `there is no step function "wished"`)
	assert.Contains(t, got, "keep step functions and questions under their names (or list them in Renamed)")
	assert.Empty(t, journal(t, renamed(map[string]string{"wished": "wish"}), true))
}

// Sagas that end badly have a journal too: they must go on failing, and leave nothing.
func TestJournalOfAFailure(t *testing.T) {
	t.Chdir(t.TempDir())
	refused := func(change func(a *agency, f *saga.Flow[tripArgs, string])) sagatest.Case {
		c := agencyCase(func(a *agency) saga.Definition {
			f := booking(a)
			if change != nil {
				change(a, &f)
			}
			return f
		})
		c.Script = append(c.Script[:3:3], sagatest.Decline("sure"))
		c.Fails = true
		return c
	}
	require.Empty(t, journal(t, refused(nil), true))
	assert.Equal(t, []string{"testdata/sagas/book@fails/0/01-day-city.json", "testdata/sagas/book@fails/0/02-wish.json", "testdata/sagas/book@fails/0/03-sure.json"}, files(t))
	assert.Empty(t, journal(t, refused(nil), false))
	named := refused(nil)
	named.Journal = "no, thanks"
	assert.Contains(t, journal(t, named, false), "commit testdata/sagas/book@no_thanks/0/01-day-city.json")

	got := journal(t, refused(func(_ *agency, f *saga.Flow[tripArgs, string]) {
		run := f.Run
		f.Run = func(r *saga.Run, in tripArgs) (string, error) {
			text, err := run(r, in)
			if errors.Is(err, steps.ErrDeclined) {
				return "Never mind.", nil
			}
			return text, err
		}
	}), false)
	assert.Contains(t, got, "the saga ended well", "the script fails no longer")
}
