package sagatest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

type seatForm struct {
	Row string `json:"row"`
}

// newSeats returns a tool that asks for a seat and for a consent, and what it acts on.
func newSeats() sagatest.Subject {
	c := &counter{Reserved: map[saga.Key]string{}, Asked: map[saga.Key]string{}}
	hold, buy := c.effect("hold", c.Reserved), c.effect("buy", c.Asked)
	row := &steps.Form[seatForm]{ID: "row", Message: "Which row?"}
	agree := &steps.Form[struct{}]{ID: "agree", Message: "Buy it?", Consent: true}
	tool := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "seat", Asks: []steps.Question{row, agree}, Effects: []saga.Declared{hold, buy}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			seat, err := saga.Ask(r, row)
			if err != nil {
				return "", err
			}
			if _, err := saga.Do(r, hold, seat.Row); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, agree); err != nil {
				return "", err
			}
			return saga.Do(r, buy, seat.Row)
		},
	}
	return sagatest.Subject{Tool: tool, World: func() any {
		c.mu.Lock()
		defer c.mu.Unlock()
		return []any{len(c.Reserved), len(c.Asked)}
	}}
}

const (
	askedByModel = `"seat" is not finished: it waits for an answer of the user. Do not answer for the user, and do not call other tools for this.
Ask the user in the chat:
Question "row": "Which row?"
The answer is an object with this schema: {"type":"object","properties":{"row":{"type":"string"}},"required":["row"]}
When the user has answered in the chat, call the tool "seat" again with the same arguments and in addition resumeToken: TOKEN and answers: {"row":{…}}
What the user refuses is "decline" in place of the object; to give all of it up, answers is "cancel".`
	askedOnAPage = `"seat" is not finished: it waits for an answer of the user. Do not answer for the user, and do not call other tools for this.
Ask the user to open this link and answer there: LINK
Only the user can answer question "agree" there: "Buy it?"
When the user has answered there, call the tool "seat" again with the same arguments and in addition resumeToken: TOKEN`
)

// The words are made where a server makes them.
func TestPlayByRoutes(t *testing.T) {
	relay := sagatest.Accept("row", seatForm{"7"}).Via(steps.RouteRelay)
	agree := sagatest.Accept("agree", struct{}{})

	t.Run("a consent has no other way", func(t *testing.T) {
		subject := newSeats()
		played := sagatest.Play(t, subject.Tool, nil, relay)
		assert.Equal(t, []string{askedByModel}, played.Rounds[0].Words)
		assert.Len(t, played.Rounds, 1)
		assert.False(t, played.Good())
		assert.Contains(t, played.Text(), `"seat" was stopped: it asks "agree", which must be answered by a person`)
		assert.Equal(t, []string{"hold"}, played.Undo().Undone)
		assert.Equal(t, []any{0, 0}, subject.World())
	})
	t.Run("a consent is refused to the model, and given on the page", func(t *testing.T) {
		played := sagatest.Play(t, newSeats().Tool, nil, relay, agree.Via(steps.RouteRelay), agree.Via(steps.RoutePage))
		assert.Equal(t, "7", played.Text())
		assert.Equal(t, []string{"hold", "buy"}, played.Effects())
		assert.Equal(t, []string{askedOnAPage, `No answer was taken: "agree" must be answered by a person, not by a model.` + "\n" + askedOnAPage}, played.Rounds[1].Words)
	})
	t.Run("in the host's window", func(t *testing.T) {
		played := sagatest.Play(t, newSeats().Tool, nil, sagatest.Accept("row", seatForm{"7"}).Via(steps.RouteApp), agree)
		assert.Equal(t, "7", played.Text())
		assert.Contains(t, played.Rounds[1].Words[0], "A form is shown to the user in this window.")
	})
	t.Run("the client", func(t *testing.T) {
		played := sagatest.Play(t, newSeats().Tool, nil, sagatest.Accept("row", seatForm{"7"}).Via(steps.RouteClient), agree)
		assert.Equal(t, "7", played.Text())
		assert.Empty(t, played.Rounds[0].Words)
	})
	t.Run("what is never taken", func(t *testing.T) {
		f := reported(t, func(t testing.TB) {
			sagatest.Play(t, newSeats().Tool, nil, relay, agree.Via(steps.RouteRelay).Always(), sagatest.Leave("x").Via(steps.RoutePage))
		})
		assert.Contains(t, f.errors[0], `the answer to "agree" comes by relay, which is never taken`)
	})
}

// What is asked after a recorded suspension may be refused before it is taken, as in the script.
func TestJournalByRoutes(t *testing.T) {
	t.Chdir(t.TempDir())
	agree := sagatest.Accept("agree", struct{}{})
	c := sagatest.Case{New: func(testing.TB) sagatest.Subject { return newSeats() }, Script: []sagatest.Answer{
		sagatest.Accept("row", seatForm{"7"}).Via(steps.RouteRelay), agree.Via(steps.RouteRelay), agree.Via(steps.RoutePage),
	}}
	assert.Empty(t, journal(t, c, true))
	assert.Len(t, files(t), 2)
	assert.Empty(t, journal(t, c, false))
}

// An instance of a question takes the answers of its question in turn, like any.
func TestInstancesByRoutes(t *testing.T) {
	agree := &steps.Form[struct{}]{ID: "agree", Message: "Buy it?", Consent: true}
	tool := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "two", Asks: []steps.Question{agree}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			_, err := saga.Ask(r, agree.Nth(1))
			return "bought", err
		},
	}
	yes := sagatest.Accept("agree", struct{}{})
	played := sagatest.Play(t, tool, nil, yes.Via(steps.RouteRelay), yes.Via(steps.RouteRelay), yes.Via(steps.RoutePage))
	assert.Equal(t, "bought", played.Text())
	assert.Len(t, played.Rounds[0].Words, 3)
}

func TestGuideByRoutes(t *testing.T) {
	tool := newSeats().Tool
	relayed := sagatest.Accept("row", seatForm{"7"}).Via(steps.RouteRelay)
	agreed := sagatest.Accept("agree", struct{}{}).Via(steps.RoutePage)
	played := sagatest.Play(t, tool, nil, relayed, agreed)
	assert.Contains(t, played.Rounds[0].Words[0], `Question "row": "Which row?"`)
}

// An event is waited for as ever, and so is what sleeps: the model is told to come back.
func TestEventsByRoutes(t *testing.T) {
	played := sagatest.Play(t, newCounter(saga.Tasks{}).Tool, nil, sagatest.Accept("sure", struct{}{}).Via(steps.RouteRelay), sagatest.Accept("paid", payment{5}))
	assert.Equal(t, "paid 5", played.Text())
	assert.Contains(t, played.Rounds[1].Words[0], `"buy" is not finished: it works on. Later, call the tool "buy" again`)
}

func TestSweepByRoutes(t *testing.T) {
	row, agree := sagatest.Accept("row", seatForm{"7"}), sagatest.Accept("agree", struct{}{})
	for name, script := range map[string][]sagatest.Answer{
		"client": {row, agree},
		"mixed":  {row.Via(steps.RouteRelay), agree.Via(steps.RouteRelay), agree.Via(steps.RoutePage)},
	} {
		t.Run(name, func(t *testing.T) {
			sagatest.Sweep(t, sagatest.Case{New: func(testing.TB) sagatest.Subject { return newSeats() }, Script: script, Skip: []string{"forks"}}) // its world cannot check
		})
	}
}

// A host that cannot ask ends the saga at the consent, which is too late here.
func TestSweepByRoutesFindsWhatIsLeft(t *testing.T) {
	f := reported(t, func(t testing.TB) {
		sagatest.Sweep(t, sagatest.Case{Script: []sagatest.Answer{sagatest.Accept("agree", struct{}{})}, Skip: []string{"cancels", "crashes", "duplicates", "events", "expiries", "failures", "forks", "losses", "refusals", "stops", "tasks"},
			New: func(testing.TB) sagatest.Subject {
				held := map[saga.Key]bool{}
				hold := &saga.Effect[string, string]{Name: "hold", Do: func(_ context.Context, k saga.Key, in string) (string, error) { held[k] = true; return in, nil }}
				agree := &steps.Form[struct{}]{ID: "agree", Message: "Buy it?", Consent: true}
				return sagatest.Subject{World: func() any { return len(held) }, Tool: saga.Flow[struct{}, string]{
					Info: saga.Info{Name: "seat", Asks: []steps.Question{agree}, Effects: []saga.Declared{hold}},
					Run: func(r *saga.Run, _ struct{}) (string, error) {
						if _, err := saga.Do(r, hold, "a"); err != nil {
							return "", err
						}
						_, err := saga.Ask(r, agree)
						return "held", err
					}}}
			}})
	})
	assert.Contains(t, f.errors[len(f.errors)-1], "the user is asked by relay, as the client cannot")
}
