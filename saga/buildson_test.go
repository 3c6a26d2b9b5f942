package saga_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// layers performs effects one after the other and then asks. on says what each builds
// on: "index<table table<backup".
func layers(w *world, performs, on string) saga.Flow[empty, string] {
	effects := map[string]*saga.Effect[string, hold]{}
	var list []saga.Declared
	names := strings.Fields(performs)
	for _, name := range names {
		if effects[name] == nil {
			effects[name] = w.effect(name)
			effects[name].Tries = 1
			if name == "note" {
				effects[name].Undo = nil
			}
			list = append(list, effects[name])
		}
	}
	for _, pair := range strings.Fields(on) {
		name, base, _ := strings.Cut(pair, "<")
		effects[name].BuildsOn = append(effects[name].BuildsOn, effects[base])
	}
	return saga.Flow[empty, string]{Info: saga.Info{Name: "layers", Asks: []steps.Question{askConfirm}, Effects: list}, Run: func(r *saga.Run, _ empty) (string, error) {
		for _, name := range names {
			if _, err := saga.Do(r, effects[name], name); err != nil {
				return "", err
			}
		}
		_, err := saga.Ask(r, askConfirm)
		return "", err
	}}
}

func TestWhatIsNeededByWhatIsOutstandingStays(t *testing.T) {
	tests := []struct {
		name, performs, on string
		fails              string // undos that fail at first
		undone, left, kept string // at first
		later              string // undone with the successor
	}{
		{"nothing builds on another", "backup table", "", "table", "backup", "table", "", "table"},
		{"the backup stays for the restore", "backup table", "table<backup", "table", "", "table backup", "backup", "table backup"},
		{"nothing fails", "backup table", "table<backup", "", "table backup", "", "", ""},
		{"the base itself fails", "backup table", "table<backup", "backup", "table", "backup", "", "backup"},
		{"others are undone", "lock backup copy table", "table<backup", "table", "copy lock", "table backup", "backup", "table backup"},
		{"indirectly", "backup table index", "table<backup index<table", "index", "", "index table backup", "table backup", "index table backup"},
		{"directly what was done much before", "backup copy table", "table<backup", "table", "copy", "table backup", "backup", "table backup"},
		{"all of one name", "backup backup table", "table<backup", "table", "", "table backup backup", "backup backup", "table backup backup"},
		{"only what came before", "backup table backup", "table<backup", "table", "backup", "table backup", "backup", "table backup"},
		{"two build on one, and one fails", "backup table index", "table<backup index<backup", "table", "index", "table backup", "backup", "table backup"},
		{"what has no Undo needs no keeping", "note table", "table<note", "table", "", "table", "", "table"},
	}
	words := func(s string) []string { return append([]string{}, strings.Fields(s)...) }
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld()
			s := play(t, layers(w, test.performs, test.on))
			s.start(`{}`)
			w.fail = func(call string) error {
				for _, name := range strings.Fields(test.fails) {
					if call == "undo "+name+" true" {
						return errors.New("busy")
					}
				}
				return nil
			}
			w.log = nil
			out := s.answer(action("confirm", "decline"))
			u := report(t, out)
			assert.Equal(t, words(test.undone), u.Undone)
			assert.Equal(t, words(test.left), u.Outstanding)
			assert.Equal(t, words(test.kept), append([]string{}, u.Kept...))
			for _, name := range u.Kept {
				assert.Contains(t, out.Err.Error(), `undo of "`+name+`": not tried, as "`)
			}
			if test.later == "" {
				assert.Nil(t, u.Again)
				return
			}
			s.keep(&engine.Outcome{Position: u.Again}) // as bytes
			again, err := s.tool.Cancel(context.Background(), s.pos, engine.Call{Now: testNow})
			require.NoError(t, err)
			assert.Equal(t, u.Outstanding, report(t, again).Outstanding, "as long as it fails, the same stays")
			require.NotNil(t, report(t, again).Again)

			w.fail, w.log = func(string) error { return nil }, nil
			s.keep(&engine.Outcome{Position: report(t, again).Again})
			last, err := s.tool.Cancel(context.Background(), s.pos, engine.Call{Now: testNow})
			require.NoError(t, err)
			assert.Equal(t, words(test.later), report(t, last).Undone)
			assert.Empty(t, report(t, last).Outstanding)
			assert.Nil(t, report(t, last).Again)
			for key, what := range w.held {
				assert.Equal(t, "note", what, key)
			}
		})
	}
	t.Run("what the caller reads", func(t *testing.T) {
		w := newWorld()
		s := play(t, layers(w, "lock backup table", "table<backup"))
		s.start(`{}`)
		w.fail = func(call string) error {
			if call == "undo table true" {
				return errors.New("busy")
			}
			return nil
		}
		out := s.answer(action("confirm", "decline"))
		assert.Contains(t, text(t, out), "Undone: lock.\nNot undone: table, backup. Kept until what builds on them is undone: backup. This can be tried again.")
	})
}

func TestBuildsOnIsChecked(t *testing.T) {
	problem := func(change func(a, b, c *saga.Effect[string, hold]) []saga.Declared) string {
		w := newWorld()
		_, err := saga.Flow[empty, string]{Info: saga.Info{Name: "f", Effects: change(w.effect("a"), w.effect("b"), w.effect("c"))}, Run: func(*saga.Run, empty) (string, error) { return "", nil }}.Compile()
		require.Error(t, err)
		return err.Error()
	}
	type e = *saga.Effect[string, hold]
	assert.Equal(t, `tool "f": effect "b" builds on "a", which is not declared; add it to the tool's Effects`,
		problem(func(a, b, _ e) []saga.Declared { b.BuildsOn = []saga.Declared{a}; return []saga.Declared{b} }))
	assert.Equal(t, `tool "f": effect "b" builds on "a", which is not declared; add it to the tool's Effects`,
		problem(func(a, b, _ e) []saga.Declared {
			copied := *a
			b.BuildsOn = []saga.Declared{&copied}
			return []saga.Declared{a, b}
		}), "another effect of that name")
	assert.Equal(t, `tool "f": effect "b" builds on "", which is not declared; add it to the tool's Effects`,
		problem(func(_, b, _ e) []saga.Declared { b.BuildsOn = []saga.Declared{nil}; return []saga.Declared{b} }))
	assert.Equal(t, "tool \"f\": effect \"a\" builds on itself\ntool \"f\": effect \"b\" builds on itself\ntool \"f\": effect \"c\" builds on itself",
		problem(func(a, b, c e) []saga.Declared {
			a.BuildsOn, b.BuildsOn, c.BuildsOn = []saga.Declared{b}, []saga.Declared{c}, []saga.Declared{a}
			return []saga.Declared{a, b, c}
		}))
	assert.Equal(t, `tool "f": Effects[1] ("b") has BuildsOn but no Undo that could need it`,
		problem(func(a, b, _ e) []saga.Declared {
			b.BuildsOn, b.Undo = []saga.Declared{a}, nil
			return []saga.Declared{a, b}
		}))
}
