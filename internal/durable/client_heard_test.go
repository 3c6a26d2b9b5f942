package durable_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A lost turn keeps what it has heard, for who takes it again and who undoes it: also when others are asked in other words by
// then, or the event is forgotten.
func TestALostTurnKeepsWhatItHasHeard(t *testing.T) {
	const ttl = 8 * 24 * time.Hour // events are remembered for less
	for name, test := range map[string]struct {
		event, comes bool
	}{
		"others, who are asked anew, resumed":     {comes: true},
		"others, who are asked anew, abandoned":   {},
		"an event, which is forgotten, resumed":   {event: true, comes: true},
		"an event, which is forgotten, abandoned": {event: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, handle := newOutside(), ""
				hold, paid := w.effect("hold"), &steps.Event[sum]{ID: "paid", Message: "Paid?", Within: time.Hour}
				tool := func(words string) saga.Definition {
					asks := &steps.Form[sum]{ID: "approve", Message: words, By: steps.By{"finance"}, Within: time.Hour}
					info := saga.Info{Name: "trip", Asks: []steps.Question{asks, paid, nameForm}, Effects: []saga.Declared{hold}}
					return saga.Flow[none, string]{Info: info, Run: func(r *saga.Run, _ none) (string, error) {
						var err error
						if handle, err = saga.Handle(r, paid); err != nil {
							return "", err
						}
						if test.event {
							_, err = saga.Ask(r, paid)
						} else {
							_, err = saga.Ask(r, asks)
						}
						if err != nil {
							return "", err
						}
						if _, err := saga.Do(r, hold, "Rome"); err != nil {
							return "", err
						}
						_, err = saga.Ask(r, nameForm)
						return "done", err
					}}
				}
				s := newFleet(t, tool("Pay?"))
				lasts := func(c *clientConfig) {
					var err error
					c.Codec, err = tokens.New(s.keys, tokens.Options{Audience: "here", TTL: ttl})
					require.NoError(t, err)
				}
				a := s.replica(lasts)
				first := a.begin(t, "{}")
				if test.event {
					require.NoError(t, deliver(a.core, handle, `{"limit":1}`))
				} else {
					require.NoError(t, answersAs(a.core, waitingFor(t, a.core, "finance")[0], "jo", 1))
				}
				w.dies(a, "hold")
				_, err := a.resume(first.Token)
				require.Error(t, err)
				require.Len(t, w.things(), 1)
				s.tools = []saga.Definition{tool("Pay or not?")}
				b := s.replica(lasts)
				time.Sleep(ttl - time.Minute)
				s.forget()
				if test.comes {
					end, err := b.resume(first.Token)
					require.NoError(t, err)
					require.Len(t, end.Steps, 1, "it goes on")
					assert.Len(t, w.things(), 1)
					return
				}
				b.work(t)
				time.Sleep(3 * time.Hour)
				assert.Empty(t, w.things(), "it was abandoned")
				assert.Empty(t, b.waiting(t))
			})
		})
	}
}
