package durable_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// However many effects a saga performs, and however many it has, it goes on, is shown to operators, and is undone.
func TestASagaOfManyEffects(t *testing.T) {
	var long []string
	for i := range 300 {
		long = append(long, fmt.Sprintf("%s%d", strings.Repeat("x", 50), i))
	}
	for name, c := range map[string]struct {
		names []string
		times int
		shown []string
	}{
		"of one name":   {[]string{"hold"}, 3000, []string{"hold (3000 times)"}},
		"of two":        {[]string{"hold", "charge"}, 2, []string{"hold (2 times)", "charge (2 times)"}},
		"of many names": {long, 1, append(long[:156:156], "144 more")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newOutside()
				ask := &steps.Form[tripForm]{ID: "where", Message: "There?"}
				info := saga.Info{Name: "trip", Asks: []steps.Question{ask}}
				var effects []*saga.Effect[string, string]
				for _, name := range c.names {
					e := w.effect(name)
					effects, info.Effects = append(effects, e), append(info.Effects, e)
				}
				s := newFleet(t, saga.Flow[tripArgs, string]{Info: info, Run: func(r *saga.Run, in tripArgs) (string, error) {
					for i := range c.times {
						for _, e := range effects {
							if _, err := saga.Do(r, e, fmt.Sprint(in.To, i)); err != nil {
								return "", err
							}
						}
					}
					_, err := saga.Ask(r, ask)
					return "done", err
				}})
				a := s.replica()
				a.work(t)
				first := a.begin(t, `{"to":"Rome"}`)
				assert.Equal(t, c.shown, a.onlyWaiting(t).Effects)
				end, err := a.resume(first.Token, say("where", true))
				require.NoError(t, err)
				assert.Equal(t, "done", end.Result.Content.Text())
				a.begin(t, `{"to":"Oslo"}`)
				time.Sleep(tokens.DefaultTTL + tokens.DefaultSkew + time.Minute)
				assert.Len(t, w.things(), len(c.names)*c.times, "the other one is undone")
			})
		})
	}
}
