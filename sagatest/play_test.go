package sagatest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/examples/longtalk"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

func TestPlay(t *testing.T) {
	a := newAgency()
	p := sagatest.Play(t, booking(a), tripArgs{"Bern"}, script...)
	assert.Equal(t, "Booked: Bern to rome on 2026-12-24.", p.Text())
	assert.True(t, p.Good())
	assert.Equal(t, [][]string{{"day", "city"}, {"wish"}, {"sure"}}, p.Asked())
	assert.Equal(t, "Which seat to rome?", p.Find("wish").Message())
	assert.Equal(t, "Shall I book rome on 2026-12-24?", p.Find("sure").Message())
	assert.Equal(t, []string{"rome", "oslo"}, p.Find("city").Choices("city"))
	assert.Nil(t, p.Find("nothing").Choices("city"))
	assert.Equal(t, []string{"room", "seat", "pay"}, p.Effects())
	assert.Equal(t, 2, p.Calls[0].Turn)
	assert.JSONEq(t, `"room in rome"`, string(p.Calls[0].Input))
	assert.Greater(t, p.MaxToken(), 100)
	resent := sagatest.Player{Resends: true}.Play(t, booking(newAgency()), tripArgs{"Bern"}, script...)
	assert.Equal(t, p.Text(), resent.Text())
	assert.LessOrEqual(t, resent.MaxToken(), p.MaxToken())
}

func TestPlayRefusals(t *testing.T) {
	for name, last := range map[string]answer{
		"declined": sagatest.Decline("sure"), "cancelled": sagatest.Cancel("sure"), "failed": sagatest.Fail("sure", 7, "no screen"),
	} {
		t.Run(name, func(t *testing.T) {
			a := newAgency()
			p := sagatest.Play(t, booking(a), tripArgs{"Bern"}, append(script[:3:3], last)...)
			assert.False(t, p.Good())
			assert.Equal(t, []string{"room", "seat", "undo seat", "undo room"}, p.Effects())
			assert.Equal(t, []string{"seat", "room"}, p.Undo().Undone)
			assert.Empty(t, a.standing())
		})
	}
	t.Run("leaves", func(t *testing.T) {
		p := sagatest.Play(t, booking(newAgency()), tripArgs{"Bern"}, append(script[:3:3], sagatest.Leave("sure"))...)
		assert.True(t, p.Suspended)
		assert.Nil(t, p.Undo())
		assert.Len(t, p.Rounds, 3)
	})
	t.Run("comes too late", func(t *testing.T) {
		a := newAgency()
		p := sagatest.Play(t, booking(a), tripArgs{"Bern"}, append(script[:3:3], accept("sure", sureForm{true}).Later(time.Hour))...)
		assert.Contains(t, p.Text(), "too late")
		assert.Empty(t, a.standing())
	})
	t.Run("does not fit, then does", func(t *testing.T) {
		p := sagatest.Play(t, booking(newAgency()), tripArgs{"Bern"}, append(script[:3:3], accept("sure", map[string]any{}), accept("sure", sureForm{true}))...)
		assert.True(t, p.Good())
		assert.Equal(t, "sure~2", p.Find("sure").ID)
		assert.Contains(t, p.Find("sure").Message(), "please correct it")
	})
	t.Run("breaks the protocol", func(t *testing.T) {
		p := sagatest.Play(t, booking(newAgency()), tripArgs{"Bern"}, append(script[:3:3], sagatest.Raw("sure", []byte(`{"action":"no"}`)))...)
		assert.ErrorContains(t, p.Err, `step "sure"`)
		assert.True(t, p.Suspended)
	})
}

// everything asks in every way there is.
func everything() saga.Definition {
	link := &steps.Link{ID: "link", Message: "Please log in.", URL: "https://example.com/login"}
	roots := &steps.RootsList{ID: "roots"}
	each := &steps.Sample{ID: "each", Request: steps.SampleRequest{MaxTokens: 10}}
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "everything", Asks: []steps.Question{link, roots, each}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			if err := r.AskAll(link, roots, each.Nth(1).With(steps.Promptf("one")), each.Nth(2).With(steps.Promptf("two"))); err != nil {
				return "", err
			}
			list, err := roots.Answer(r)
			if err != nil {
				return "", err
			}
			one, err1 := each.Nth(1).Answer(r)
			two, err2 := each.Nth(2).Answer(r)
			r.Progress(1, 1, "done")
			return strings.Join([]string{list[0].URI, one.Text(), two.Text(), r.Now().Format(time.DateOnly)}, " "), errors.Join(link.Answer(r), err1, err2)
		},
	}
}

func TestPlayEveryKindOfAnswer(t *testing.T) {
	p := sagatest.Player{Now: time.Date(2030, 5, 1, 0, 0, 0, 0, time.UTC)}.Play(t, everything(), nil,
		accept("link", nil), sagatest.Roots("roots", "file:///work"),
		sagatest.Func("each", func(a sagatest.Asked) answer { return say("", "heard "+a.Message()) }))
	assert.Equal(t, "file:///work heard one heard two 2030-05-01", p.Text())
	assert.Equal(t, "https://example.com/login", p.Find("link").Link().URL)
	assert.Nil(t, p.Find("link").Form())
	assert.Nil(t, p.Find("roots").Request())
	assert.Equal(t, 10, p.Find("each#2").Request().MaxTokens)
	assert.Len(t, p.Progress, 1)

	p = sagatest.Play(t, everything(), nil, accept("link", nil), sagatest.Roots("roots", "file:///work"),
		sagatest.Raw("each#1", steps.SampleResult{Role: content.Assistant, Content: content.Blocks{content.Textf("x")}, Model: "m"}), say("each#2", "y"))
	assert.Contains(t, p.Text(), "x y")
}

func TestPlayOfALesserClient(t *testing.T) {
	p := sagatest.Player{Client: steps.Features{Forms: true}}.Play(t, everything(), nil)
	var unsupported *engine.UnsupportedError
	assert.ErrorAs(t, p.Err, &unsupported)
}

func TestPlayPromptAndResource(t *testing.T) {
	type args struct {
		ID string `json:"id"`
	}
	start := func(t *saga.Turn[args, struct{}]) (saga.Next, error) {
		return t.Ask("sure", askSure)
	}
	prompt := saga.Prompt[args, struct{}]{
		Machine: saga.Machine[args, struct{}]{
			Info:  saga.Info{Name: "p", Asks: []steps.Question{askSure}},
			Start: start,
			Steps: saga.Steps[args, struct{}]{"sure": func(t *saga.Turn[args, struct{}]) (saga.Next, error) {
				if _, err := askSure.Answer(t); err != nil {
					return nil, err
				}
				return t.Messages(content.Message{Role: content.User, Content: content.Textf("about %s", t.Args.ID)})
			}},
		},
	}
	resource := saga.Resource[args, struct{}]{
		Machine: saga.Machine[args, struct{}]{
			Info:  saga.Info{Name: "r", Asks: []steps.Question{askSure}},
			Start: start,
			Steps: saga.Steps[args, struct{}]{"sure": func(t *saga.Turn[args, struct{}]) (saga.Next, error) {
				if _, err := askSure.Answer(t); err != nil {
					return nil, err
				}
				return t.Contents(content.ResourceContents{URI: "note://" + t.Args.ID, Text: "hello"})
			}},
		},
		Template: "note://{id}",
	}
	yes := accept("sure", sureForm{true})
	assert.Len(t, sagatest.Play(t, prompt, args{"7"}, yes).Messages, 1)
	assert.Equal(t, "hello", sagatest.Play(t, resource, args{"7"}, yes).Contents[0].Text)
	declined := sagatest.Play(t, prompt, args{"7"}, sagatest.Decline("sure"))
	assert.False(t, declined.Good())
	assert.ErrorContains(t, declined.Err, "declined")
	for _, d := range []saga.Definition{prompt, resource} {
		sagatest.Sweep(t, sagatest.Case{Tool: d, Args: args{"7"}, Script: []answer{yes}})
	}
}

func TestPlayReportsWhatTheScriptLacks(t *testing.T) {
	report := func(d saga.Definition, answers ...answer) string {
		f := reported(t, func(t testing.TB) { sagatest.Play(t, d, tripArgs{"Bern"}, answers...) })
		require.Len(t, f.errors, 1)
		return f.errors[0]
	}
	assert.Equal(t, `sagatest: the tool asks "wish", and the script has no answer to it.
  asked: Which seat to rome?
  what to do: add sagatest.Say("wish", …) to the script, or sagatest.Leave("wish") if the client is to stop here`, report(booking(newAgency()), script[:2]...))
	assert.Contains(t, report(booking(newAgency()), script[:1]...), `add sagatest.Accept("city", …)`)
	assert.Contains(t, report(booking(newAgency()), append(script[:3:3], accept("sure", map[string]any{}))...), "the script has only 1 of the 2 answers that it takes")
	assert.Equal(t, `sagatest: the script has answers that the tool never asked for: "meal", "sure" (2 times).
  what to do: take them out, or find out why the tool did not ask`,
		report(booking(newAgency()), append(script[:4:4], accept("meal", nil), accept("sure", nil), accept("sure", nil))...))
	assert.Contains(t, report(booking(newAgency()), accept("city", func() {}), script[0]), `the answer to "city"`)
	assert.Contains(t, report(saga.Flow[tripArgs, string]{Info: saga.Info{Name: "f"}}), "the tool's definition is not valid")
	assert.Contains(t, report(nil), "there is no tool to play")
}

func TestCosts(t *testing.T) {
	play := func(maxRounds, maxToken int) *fakeT {
		return reported(t, func(t testing.TB) {
			sagatest.Player{MaxRounds: maxRounds, MaxToken: maxToken}.Play(t, booking(newAgency()), tripArgs{"Bern"}, script...)
		})
	}
	assert.Empty(t, play(3, 2000).errors)
	got := play(2, 100).errors
	require.Len(t, got, 2)
	assert.Regexp(t, `the token of round 1 has \d+ characters; MaxToken allows 100`, got[0])
	assert.Contains(t, got[1], "the tool asked in 3 rounds; MaxRounds allows 2")

	talk := []answer{say("opinion", "none")}
	for range longtalk.Rounds {
		talk = append(talk, accept("word", map[string]string{"word": "so"}))
	}
	talk = append(talk[:2], append([]answer{accept("word", map[string]any{})}, talk[2:]...)...)
	f := reported(t, func(t testing.TB) { sagatest.Play(t, longtalk.Tool, nil, talk...) })
	require.Len(t, f.errors, 1)
	assert.Contains(t, f.errors[0], "the tool asked in 9 rounds; many clients give up after 8 to 10")
	sagatest.Player{MaxRounds: 9}.Play(t, longtalk.Tool, nil, talk...)

	c := agencyCase(func(a *agency) saga.Definition { return booking(a) })
	c.MaxRounds = 1
	f = reported(t, func(t testing.TB) { sagatest.Sweep(t, c) })
	require.Len(t, f.errors, 1)
	assert.Contains(t, f.errors[0], "MaxRounds allows 1")
}

func TestAt(t *testing.T) {
	a := newAgency()
	p := sagatest.Player{}.At("sure", &bookState{City: "oslo", Day: "2026-01-01"}, sagatest.Decline("sure")).
		Performed("room", "room in oslo", "k").Play(t, bookingMachine(a), tripArgs{"Bern"})
	assert.Equal(t, []string{"undo room"}, p.Effects())
	assert.True(t, p.Calls[0].Known)
	assert.Equal(t, `"room in oslo"`, string(p.Calls[0].Input))
	assert.Empty(t, p.Rounds)

	p = sagatest.Player{}.At("wished", bookState{City: "oslo", Day: "2026-01-01"}, say("wish", "aisle")).Play(t, bookingMachine(newAgency()), tripArgs{"Bern"}, accept("sure", sureForm{true}))
	assert.Equal(t, "Booked: Bern to oslo on 2026-01-01.", p.Text())
	assert.Equal(t, [][]string{{"sure"}}, p.Asked())

	report := func(player sagatest.Player, d saga.Definition) string {
		f := reported(t, func(t testing.TB) { player.Play(t, d, tripArgs{"Bern"}) })
		require.NotEmpty(t, f.errors)
		return f.errors[0]
	}
	machine := bookingMachine(newAgency())
	assert.Contains(t, report(sagatest.Player{}.At("nowhere", nil), machine), `has no step function "nowhere"`)
	assert.Contains(t, report(sagatest.Player{}.At("sure", 7), machine), "the given state is a int, but the tool's is a sagatest_test.bookState")
	assert.Contains(t, report(sagatest.Player{}.At("sure", nil, accept("meal", nil)), machine), `has no question "meal"`)
	assert.Contains(t, report(sagatest.Player{}.At("sure", nil, accept("sure", cityForm{})), machine), "is not valid")
	assert.Contains(t, report(sagatest.Player{}.At("sure", nil).Performed("meal", nil, nil), machine), `has no effect "meal"`)
	assert.Contains(t, report(sagatest.Player{}.At("sure", nil).Performed("room", func() {}, nil), machine), `the input of effect "room"`)
	assert.Contains(t, report(sagatest.Player{}.At("sure", nil).Performed("room", nil, func() {}), machine), `the output of effect "room"`)
	assert.Contains(t, report(sagatest.Player{}.At("sure", nil, sagatest.Leave("sure")), machine), "does not come to the middle")
	assert.Contains(t, report(sagatest.Player{}.At("flow", nil), booking(newAgency())), "a flow has no step functions and no state")
}

func TestAfter(t *testing.T) {
	a := newAgency()
	after := sagatest.Player{}.After(script[0], script[1], script[2]).Performed("room", nil, "k1").Performed("seat", nil, "k2")
	p := after.Play(t, booking(a), tripArgs{"Bern"}, sagatest.Decline("sure"))
	assert.Equal(t, [][]string{{"sure"}}, p.Asked())
	assert.Equal(t, []string{"undo seat", "undo room"}, p.Effects())

	// A player is a value: what is said of one does not change another.
	three := after.Performed("lunch", nil, true)
	one, other := three.Performed("pay", nil, true), three.Performed("tea", nil, true)
	for name, player := range map[string]sagatest.Player{"pay": one, "tea": other} {
		f := reported(t, func(t testing.TB) { player.Play(t, booking(newAgency()), tripArgs{"Bern"}, sagatest.Decline("sure")) })
		require.Len(t, f.errors, 2)
		assert.Contains(t, f.errors[0], `effect "lunch" was given as performed`)
		assert.Contains(t, f.errors[1], `effect "`+name+`" was given as performed`)
	}

	f := reported(t, func(t testing.TB) {
		sagatest.Player{}.After(script[0]).Performed("pay", nil, true).Play(t, booking(newAgency()), tripArgs{"Bern"}, script[1], sagatest.Fail("wish", 1, "no"))
	})
	require.Len(t, f.errors, 1)
	assert.Contains(t, f.errors[0], `effect "pay" was given as performed, but the tool did not come to it`)
}

// A function decides about all of an answer: when it comes, and whether it does.
func TestFuncDecidesAboutAll(t *testing.T) {
	ask := &steps.Form[sureForm]{ID: "sure", Message: "Sure?"}
	tool := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "late", Asks: []steps.Question{ask}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			_, err := saga.Ask(r, ask)
			return r.Now().Format(time.TimeOnly), err
		},
	}
	play := func(a sagatest.Answer) *sagatest.Played {
		return sagatest.Play(t, tool, nil, sagatest.Func("sure", func(sagatest.Asked) sagatest.Answer { return a }))
	}
	assert.Equal(t, "12:05:01", play(accept("sure", sureForm{true}).Later(5*time.Minute)).Text())
	assert.True(t, play(sagatest.Leave("sure")).Suspended)

	f := reported(t, func(t testing.TB) {
		sagatest.Play(t, tool, nil, sagatest.Func("sure", func(sagatest.Asked) sagatest.Answer { return sagatest.Answer{} }))
	})
	assert.Contains(t, f.errors[0], `the answer to "sure": the function that decides gave no answer`)
}

func TestCasesThatAreWrong(t *testing.T) {
	good := agencyCase(func(a *agency) saga.Definition { return booking(a) })
	n := 0
	tests := map[string]struct {
		change func(c *sagatest.Case)
		want   string
	}{
		"no tool":              {func(c *sagatest.Case) { c.New = nil }, "the case has no tool"},
		"unknown kind":         {func(c *sagatest.Case) { c.Skip = []string{"weather"} }, `Case.Skip has "weather"`},
		"short script":         {func(c *sagatest.Case) { c.Script = c.Script[:2] }, "broken rule: the script leads to the end"},
		"leaving":              {func(c *sagatest.Case) { c.Script = append(c.Script[:3:3], sagatest.Leave("sure")) }, "a sweep needs one that goes on to the end"},
		"long script":          {func(c *sagatest.Case) { c.Script = append(c.Script[:4:4], accept("meal", nil)) }, "answers that the tool never asked for"},
		"a failure not meant":  {func(c *sagatest.Case) { c.Script = append(c.Script[:3:3], sagatest.Decline("sure")) }, "broken rule: the script leads to a good end"},
		"a success not meant":  {func(c *sagatest.Case) { c.Fails = true }, "broken rule: the script leads to a failure, as Case.Fails says"},
		"arguments":            {func(c *sagatest.Case) { c.Args = func() {} }, "the arguments cannot be encoded"},
		"a world of no JSON":   {func(c *sagatest.Case) { c.New = opaque(c.New) }, "what World returns cannot be encoded: json: "},
		"a world that is kept": {func(c *sagatest.Case) { c.New = kept(c.New) }, "broken rule: two undisturbed sagas are alike"},
		"a check that fails": {func(c *sagatest.Case) {
			c.Check = func(t testing.TB, _ *sagatest.Played) { n++; t.Errorf("the author is not content") }
		}, "the author is not content"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c := good
			test.change(&c)
			f := reported(t, func(t testing.TB) { sagatest.Sweep(t, c) })
			require.NotEmpty(t, f.errors)
			assert.Contains(t, strings.Join(f.errors, "\n"), test.want)
		})
	}
	assert.Equal(t, 1, n, "a check that fails when nothing goes wrong ends the sweep")
}

// opaque makes New return a world that shows nothing.
func opaque(newSubject func(testing.TB) sagatest.Subject) func(testing.TB) sagatest.Subject {
	return func(t testing.TB) sagatest.Subject {
		s := newSubject(t)
		s.World = func() any { return map[string]any{"held": func() {}} }
		return s
	}
}

// kept makes New return the same world each time.
func kept(newSubject func(testing.TB) sagatest.Subject) func(testing.TB) sagatest.Subject {
	var one *sagatest.Subject
	return func(t testing.TB) sagatest.Subject {
		if one == nil {
			s := newSubject(t)
			s.Check, one = nil, &s
		}
		return *one
	}
}
