package steps_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/steps"
)

func TestRoutes(t *testing.T) {
	for set, name := range map[steps.Routes]string{
		0: "any", steps.RouteClient: "client", steps.RouteApp | steps.RoutePage: "app, page", steps.RouteRelay: "relay",
	} {
		assert.Equal(t, name, set.String())
	}
	assert.True(t, steps.Routes(0).Has(steps.RouteRelay))
	assert.False(t, steps.RoutePage.Has(steps.RouteRelay))
}

// What is said of a question is said of all that With and Nth make of it.
func TestRoutesStay(t *testing.T) {
	type form struct {
		OK bool `json:"ok"`
	}
	f := &steps.Form[form]{ID: "f", Message: "Sure?", Routes: steps.RoutePage, Consent: true}
	for _, q := range []steps.Request{f, f.With(steps.Message("Really?")), f.Nth(2), f.Nth(2).With()} {
		s, err := q.Step()
		require.NoError(t, err)
		assert.Equal(t, steps.RoutePage, s.Routes)
		assert.True(t, s.Consent)
	}
	l := &steps.Link{ID: "l", Message: "Sign in.", Routes: steps.RouteClient}
	for _, q := range []steps.Request{l.With(steps.URL("https://example.com")), l.Nth(1).With(steps.URL("https://example.com"))} {
		s, err := q.Step()
		require.NoError(t, err)
		assert.Equal(t, steps.RouteClient, s.Routes)
	}
}
