package sagatest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
)

// Shorter names for what the tests use all the time.
type answer = sagatest.Answer

var accept, say = sagatest.Accept, sagatest.Say

// agencyCase is a case of a tool that acts on an agency.
func agencyCase(tool func(*agency) saga.Definition) sagatest.Case {
	return sagatest.Case{
		New: func(testing.TB) sagatest.Subject {
			a := newAgency()
			return sagatest.Subject{
				Tool: tool(a), World: a.standing,
				Check: func(t testing.TB, p *sagatest.Played) {
					if p.Good() {
						assert.Equal(t, []string{"room in rome paid", "seat at a window paid"}, a.standing())
					} else {
						assert.Empty(t, a.standing())
					}
				},
			}
		},
		Args: tripArgs{"Bern"}, Script: script,
	}
}

func TestSweepFlow(t *testing.T) {
	c := agencyCase(func(a *agency) saga.Definition { return booking(a) })
	c.Check = func(t testing.TB, p *sagatest.Played) {
		if p.Good() { // it comes to the end by this question only, whatever happens
			assert.Equal(t, "sure", p.Find("sure").Question, p.Scenario)
		}
	}
	sagatest.Sweep(t, c)
}

func TestSweepMachine(t *testing.T) {
	sagatest.Sweep(t, agencyCase(func(a *agency) saga.Definition { return bookingMachine(a) }))
}
