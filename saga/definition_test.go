package saga_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/schema"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// tool builds a definition with a given state type.
func withState[S any]() saga.Definition {
	return saga.Machine[empty, S]{Info: saga.Info{Name: "x"}, Start: func(t *saga.Turn[empty, S]) (saga.Next, error) { return t.Textf("done") }}
}

func TestDefinitionsAreChecked(t *testing.T) {
	fn := func(t *saga.Turn[empty, empty]) (saga.Next, error) { return t.Textf("done") }
	change := func(f func(*saga.Machine[empty, empty])) saga.Definition {
		m := single(fn)
		f(&m)
		return m
	}
	type m = *saga.Machine[empty, empty]
	tests := []struct {
		problem string
		d       saga.Definition
	}{
		{"the name must be 1 to 128", change(func(m m) { m.Name = "" })},
		{"the name must be 1 to 128", change(func(m m) { m.Name = "a b" })},
		{"Start is nil", change(func(m m) { m.Start = nil })},
		{`step function "again" is nil`, change(func(m m) { m.Steps["again"] = nil })},
		{`cannot be named "start"`, change(func(m m) { m.Steps["start"] = fn })},
		{`cannot be named ""`, change(func(m m) { m.Steps[""] = fn })},
		{`step function cannot be named "a b"; a name is 1 to 64 characters`, change(func(m m) { m.Steps["a b"] = fn })},
		{"Asks but no Steps", change(func(m m) { m.Steps = nil })},
		{"Asks[1] is nil", change(func(m m) { m.Asks = append(m.Asks, nil) })},
		{`two questions in Asks have the id "confirm"`, change(func(m m) { m.Asks = append(m.Asks, askConfirm) })},
		{`an id is 1 to 64 characters`, change(func(m m) { m.Asks = []steps.Question{&steps.Form[confirmForm]{ID: "a~2", Message: "?"}} })},
		{`question "nested" cannot be asked`, change(func(m m) {
			m.Asks = []steps.Question{&steps.Form[struct {
				In struct{ X string } `json:"in"`
			}]{ID: "nested", Message: "?"}}
		})},
		{"MaxAttempts is -1", change(func(m m) { m.MaxAttempts = -1 })},
		{"MaxAge is negative", change(func(m m) { m.MaxAge = -time.Second })},
		{"the TTL of its Tasks is negative", change(func(m m) { m.Tasks = saga.Tasks{Mode: saga.TasksOptional, TTL: -1} })},
		{"the Poll of its Tasks is negative", change(func(m m) { m.Tasks = saga.Tasks{Mode: saga.TasksOptional, Poll: -1} })},
		{"the Keep of its Tasks is negative", change(func(m m) { m.Tasks = saga.Tasks{Mode: saga.TasksOptional, Keep: -1} })},
		{"the Mode of its Tasks is 3", change(func(m m) { m.Tasks.Mode = 3 })},
		{"their Mode is TasksForbidden", change(func(m m) { m.Tasks.Poll = time.Second })},
		{`after the question "where", which is not declared`, change(func(m m) { m.Tasks = saga.Tasks{Mode: saga.TasksRequired, After: "where"} })},
		{"a prompt cannot have Tasks", saga.Prompt[empty, empty]{Machine: change(func(m m) { m.Tasks.Mode = saga.TasksOptional }).(saga.Machine[empty, empty])}},
		{"a resource cannot have Yields", saga.Resource[empty, empty]{URI: "n://x", Machine: change(func(m m) { m.Yields = true }).(saga.Machine[empty, empty])}},
		{`has an argument named "resumeToken"`, saga.Flow[struct {
			Token string `json:"resumeToken"`
		}, string]{Info: saga.Info{Name: "x", Yields: true}, Run: func(*saga.Run, struct {
			Token string `json:"resumeToken"`
		}) (string, error) {
			return "", nil
		}}},
		{"must have the type object", change(func(m m) { m.InputSchema = &jsonschema.Schema{Type: "string"} })},
		{"the input schema is not usable", change(func(m m) { m.InputSchema = &jsonschema.Schema{Type: "object", Ref: "https://example.com/x"} })},
		{"the output schema is not usable", change(func(m m) { m.OutputSchema = &jsonschema.Schema{Pattern: "("} })},
		{"no input schema can be made", saga.Machine[struct{ C chan int }, empty]{Info: saga.Info{Name: "x"}, Start: func(t *saga.Turn[struct{ C chan int }, empty]) (saga.Next, error) { return nil, nil }}},
		{"is a chan", withState[struct{ C chan int }]()},
		{"is a func", withState[struct{ In []struct{ F func() } }]()},
		{"field hidden of the state is not exported", withState[struct{ hidden string }]()},
		{`tagged json:"-"`, withState[struct {
			X string `json:"-"`
		}]()},
		{"a decoder cannot know", withState[struct{ E error }]()},
		{"holds a Secret in a slice", withState[struct{ S []saga.Secret }]()},
		{"holds a Secret in a ptr", withState[struct{ S *saga.Secret }]()},
		{"a Secret must be a field", withState[map[string]saga.Secret]()},
		{"the state's field key is a Secret but not exported", withState[struct{ key saga.Secret }]()},
		{"the state's field In.key is a Secret but not exported", withState[struct{ In struct{ key saga.Secret } }]()},
	}
	for _, test := range tests {
		t.Run(test.problem, func(t *testing.T) {
			_, err := engine.NewRegistry(test.d)
			var wrong *saga.DefinitionError
			require.ErrorAs(t, err, &wrong)
			assert.Contains(t, err.Error(), test.problem)
			assert.Contains(t, err.Error(), `tool "`)
		})
	}
	t.Run("same name", func(t *testing.T) {
		_, err := engine.NewRegistry(single(fn), single(fn))
		assert.ErrorContains(t, err, "two tools have this name")
	})
	t.Run("nil", func(t *testing.T) {
		_, err := engine.NewRegistry(nil)
		assert.ErrorContains(t, err, "definition 0 is nil")
	})
	t.Run("all problems at once", func(t *testing.T) {
		wrong := single(fn)
		wrong.Name, wrong.MaxAge, wrong.Start = "w", -1, nil
		wrong.Asks = append(wrong.Asks, nil, &steps.Form[confirmForm]{ID: "mute"})
		wrong.Effects = []saga.Declared{unrecordable[struct{ hidden int }, struct{ C chan int }](), nil}
		wrong.Steps["a b"] = fn
		wrong.Renamed = map[string]string{"x": "y"}
		wrong.Upgrades = map[uint32]saga.Upgrade[empty]{7: nil}
		flow := saga.Flow[empty, string]{Info: saga.Info{Name: "f", MaxAttempts: -1, Renamed: map[string]string{"x": "y"}}, Oldest: 1}
		resource := saga.Resource[struct {
			N int `json:"n"`
		}, empty]{
			Machine: saga.Machine[struct {
				N int `json:"n"`
			}, empty]{
				Info: saga.Info{Name: "r"},
				Start: func(*saga.Turn[struct {
					N int `json:"n"`
				}, empty]) (saga.Next, error) {
					return nil, nil
				},
			},
			Template: "{",
		}
		_, err := engine.NewRegistry(wrong, single(fn), nil, flow, single(fn), resource)
		assert.Equal(t, []string{
			`tool "w": MaxAge is negative`,
			`tool "w": Asks[1] is nil`,
			`tool "w": question "mute" cannot be asked: question "mute": has no Message`,
			`tool "w": effect "x" cannot be recorded: field hidden of its input is not exported, so it would be lost`,
			`tool "w": effect "x" cannot be recorded: field C of its result is a chan, which cannot be encoded`,
			`tool "w": Effects[1] is nil`,
			`tool "w": Start is nil`,
			`tool "w": a step function cannot be named "a b"; a name is 1 to 64 characters of A-Z a-z 0-9 _ - . : /`,
			`tool "w": Renamed says that "x" is now "y", but the former exists or the latter does not`,
			`tool "w": Upgrades has revision 7, which is not older than 0`,
			`tool "": definition 2 is nil`,
			`tool "f": MaxAttempts is -1; it must be from 1 to 100`,
			`tool "f": Run is nil`,
			`tool "f": Oldest is 1, which is newer than the Revision 0`,
			`tool "f": Renamed says that question "x" is now "y", but the former exists or the latter does not`,
			`tool "single": two tools have this name and the revision 0`,
			`tool "r": argument "n" is not a string; those of a resource are`,
		}, strings.Split(err.Error(), "\n")[:17])
		assert.Contains(t, err.Error(), "\n"+`tool "r": the URI template "{" cannot be used: `, "what comes after is still found")
		var one *saga.DefinitionError
		require.ErrorAs(t, err, &one)
		assert.Equal(t, "MaxAge is negative", one.Problem)
	})
	t.Run("all problems of one type at once", func(t *testing.T) {
		type form struct {
			N map[string]int `json:"n"`
			M chan int       `json:"m"`
			S string         `json:"s" minimum:"1"`
		}
		type args struct {
			A string `json:"a" minimum:"1"`
			B struct {
				C string `json:"c" maximum:"2"`
				D int    `json:"d" maxLength:"2"`
			} `json:"b"`
		}
		type state struct {
			hidden int
			C      chan int
		}
		nothing := func(*saga.Turn[args, state]) (saga.Next, error) { return nil, nil }
		_, err := engine.NewRegistry(saga.Machine[args, state]{
			Info:  saga.Info{Name: "m", Asks: []steps.Question{&steps.Form[form]{ID: "f", Message: "?"}}},
			Start: nothing, Steps: saga.Steps[args, state]{"end": nothing},
		})
		require.Error(t, err)
		lines := strings.Split(err.Error(), "\n")
		require.Len(t, lines, 8)
		for i, part := range []string{"form.N", "form.M", "form.S, tag minimum", "args.A", ".C, tag maximum", ".D, tag maxLength", "field hidden", "field C"} {
			assert.Contains(t, lines[i], `tool "m": `)
			assert.Contains(t, lines[i], part)
		}
		var field *schema.FieldError
		require.ErrorAs(t, err, &field)
		assert.Equal(t, "minimum", field.Tag)
		_ = state{hidden: 1}
	})
	t.Run("in order", func(t *testing.T) {
		b := single(fn)
		b.Name = "b"
		set, err := engine.NewRegistry(single(fn), b)
		require.NoError(t, err)
		assert.Equal(t, "b", set.Of(engine.KindTool)[1].Name)
		assert.Same(t, set.Of(engine.KindTool)[1], set.Find(engine.KindTool, "b"))
		assert.Nil(t, set.Find(engine.KindTool, "c"))
	})
}

func TestStatesOfManyTypesSurvive(t *testing.T) {
	type inner struct {
		When time.Time
		Wait time.Duration
	}
	type state struct {
		inner
		Names   []string
		Counts  map[string]int
		Raw     []byte
		Any     any
		Pointer *inner
		Key     saga.Secret
		In      struct{ Key saga.Secret }
		HTML    string
	}
	want := state{
		inner: inner{testNow, 3 * time.Second}, Names: []string{"a", "ü"}, Counts: map[string]int{"x": 1},
		Raw: []byte{0, 255}, Any: "text", Pointer: &inner{Wait: 1}, Key: saga.NewSecret("k1"), HTML: "<&'>",
	}
	want.In.Key = saga.NewSecret("k2")
	var got state
	m := saga.Machine[empty, state]{
		Info: saga.Info{Name: "x", Asks: []steps.Question{askConfirm}},
		Start: func(t *saga.Turn[empty, state]) (saga.Next, error) {
			t.State = want
			return t.Ask("end", askConfirm)
		},
		Steps: saga.Steps[empty, state]{"end": func(t *saga.Turn[empty, state]) (saga.Next, error) {
			got = t.State
			return t.Textf("done")
		}},
	}
	s := play(t, m)
	out := s.start(`{}`)
	e := out.Position.Encode()
	assert.NotContains(t, string(e.Body)+string(e.State)+string(e.Effects), "k1", "a secret is not among what is compressed or shown")
	assert.Contains(t, string(e.Secrets), "k1")
	s.answer(accept("confirm", yes))
	assert.Equal(t, want, got)
}

func TestStructuredResultsAreChecked(t *testing.T) {
	type weather struct {
		Degrees int `json:"degrees"`
	}
	schema, err := saga.SchemaFor[weather]()
	require.NoError(t, err)
	run := func(f func(t *saga.Turn[empty, empty]) (saga.Next, error)) (*engine.Outcome, error) {
		m := single(func(t *saga.Turn[empty, empty]) (saga.Next, error) { return f(t) })
		m.OutputSchema = schema
		tool, err := m.Compile()
		require.NoError(t, err)
		return tool.Start(context.Background(), engine.Call{ID: testID, Now: testNow})
	}
	out, err := run(func(t *saga.Turn[empty, empty]) (saga.Next, error) { return t.Structured(weather{7}) })
	require.NoError(t, err)
	assert.JSONEq(t, `{"degrees":7}`, string(out.Result.StructuredContent))
	assert.JSONEq(t, `{"degrees":7}`, text(t, out), "also as text, for clients that read no structured results")

	out, err = run(func(t *saga.Turn[empty, empty]) (saga.Next, error) {
		return t.Structured(map[string]string{"degrees": "hot"})
	})
	require.NoError(t, err)
	assert.ErrorContains(t, out.Err, "does not fit the tool's output schema")
	assert.True(t, out.Result.IsError)
	assert.NotContains(t, text(t, out), "hot", "what does not fit reaches no client")
	out, err = run(func(t *saga.Turn[empty, empty]) (saga.Next, error) { return t.Textf("hot") })
	require.NoError(t, err)
	assert.ErrorContains(t, out.Err, "needs structured content")
	out, err = run(func(t *saga.Turn[empty, empty]) (saga.Next, error) { return nil, saga.Failf("no thermometer") })
	require.NoError(t, err)
	assert.True(t, out.Result.IsError, "a failure needs no structured content")
}

// A tool that ends in a way which is none for it has failed: what it did is undone.
func TestAnEndThatDoesNotFitIsUndone(t *testing.T) {
	schema, err := saga.SchemaFor[struct {
		Degrees int `json:"degrees"`
	}]()
	require.NoError(t, err)
	for name, end := range map[string]func(t *saga.Turn[empty, empty]) (saga.Next, error){
		"another content": func(t *saga.Turn[empty, empty]) (saga.Next, error) { return t.Structured("hot") },
		"no content":      func(t *saga.Turn[empty, empty]) (saga.Next, error) { return t.Textf("hot") },
	} {
		var held []string
		effect := &saga.Effect[string, string]{
			Name: "hold",
			Do: func(_ context.Context, _ saga.Key, in string) (string, error) {
				held = append(held, in)
				return in, nil
			},
			Undo: func(context.Context, saga.Performed[string, string]) error {
				held = nil
				return nil
			},
		}
		m := single(func(t *saga.Turn[empty, empty]) (saga.Next, error) {
			if _, err := saga.Do(t, effect, "a room"); err != nil {
				return nil, err
			}
			return end(t)
		})
		m.OutputSchema, m.Info.Effects = schema, []saga.Declared{effect}
		tool, err := m.Compile()
		require.NoError(t, err)
		out, err := tool.Start(t.Context(), engine.Call{ID: testID, Now: testNow})
		require.NoError(t, err, name)
		assert.True(t, out.Result.IsError, name)
		assert.Empty(t, held, name)
		assert.Contains(t, text(t, out), "Undone: hold", name)
	}
}

func TestPositionsOfOthersAreRefused(t *testing.T) {
	s := play(t, trip())
	s.start(`{"from":"Oslo"}`)
	refuse := func(name string, m saga.Machine[tripArgs, tripState]) {
		t.Run(name, func(t *testing.T) {
			tool, err := m.Compile()
			require.NoError(t, err)
			_, err = tool.Resume(context.Background(), s.pos, engine.Call{Now: testNow, Answers: []steps.Answer{accept("city", goodCity), accept("date", goodDate)}})
			var position *engine.PositionError
			require.ErrorAs(t, err, &position)
		})
	}
	m := trip()
	m.Revision = 1
	refuse("another revision", m)
	m = trip()
	m.Name = "other"
	refuse("another tool", m)
	m = trip()
	delete(m.Steps, "where")
	refuse("a step function that is gone", m)
	m = trip()
	m.Asks = m.Asks[1:]
	refuse("a question that is gone", m)
}

func TestRewordedQuestionIsAskedAnew(t *testing.T) {
	s := play(t, trip())
	s.start(`{"from":"Oslo"}`)
	m := trip()
	reworded := &steps.Form[cityForm]{ID: "city", Message: "Which town?"}
	m.Asks[0] = reworded
	where := m.Steps["where"]
	m.Steps["where"] = func(t *saga.Turn[tripArgs, tripState]) (saga.Next, error) { return where(t) }
	s.tool = play(t, m).tool
	out := s.answer(accept("city", goodCity), accept("date", goodDate))
	require.Equal(t, []string{"city~2"}, ids(out), "the user answered another question")
	assert.Contains(t, string(out.Steps[0].Params), "Which town?")
	out = s.answer(accept("city~2", goodCity))
	assert.Equal(t, []string{"confirm"}, ids(out))
}

func TestDeadline(t *testing.T) {
	m := trip()
	m.MaxAge = time.Hour
	s := play(t, m)
	s.start(`{"from":"Oslo"}`)
	assert.Equal(t, testNow.Add(time.Hour), s.pos.Deadline)
	out := s.answer(accept("city", goodCity), accept("date", goodDate))
	assert.Equal(t, testNow.Add(time.Hour), out.Position.Deadline, "it is the saga's, not the turn's")
}

// FuzzRestore feeds the decoder of positions with anything. It is reached only
// behind the token's authentication, but must not be the weak spot when a key
// leaks.
func FuzzRestore(f *testing.F) {
	tool, err := trip().Compile()
	require.NoError(f, err)
	out, err := tool.Start(context.Background(), engine.Call{ID: testID, Now: testNow, Client: steps.AllFeatures(), Arguments: []byte(`{"from":"Oslo"}`)})
	require.NoError(f, err)
	f.Add(out.Position.Encode().Body, []byte(nil), []byte(nil), []byte(nil))
	f.Add([]byte{1}, []byte(`{"city":"x"}`), []byte{1, 1, 1, 'e', 0, 1, '1', 1, '2'}, []byte("\x01a\x01b\x03#0<\x01c"))
	f.Add([]byte{2, 0, 0, 0, 0}, []byte(nil), []byte{1, 1, 1, 'e', 0, 1, '1', 1, '2'}, []byte("\x04#0>K\x01c"))
	f.Fuzz(func(t *testing.T, body, state, effects, secrets []byte) {
		p := &engine.Position{ID: testID, Tool: "trip"}
		if p.Restore(engine.Encoded{Body: body, State: state, Effects: effects, Secrets: secrets}) != nil {
			return
		}
		again := &engine.Position{ID: testID, Tool: "trip"}
		require.NoError(t, again.Restore(p.Encode()))
		require.Equal(t, p.Encode(), again.Encode())
		tool.Resume(context.Background(), p, engine.Call{Now: testNow, Client: steps.AllFeatures(), Answers: []steps.Answer{accept("city", goodCity), accept("date", goodDate)}})
	})
}
