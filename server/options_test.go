package server_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// With times that no token can have, or whose sums overflow, all calls would fail.
func TestTimesThatAreTooLong(t *testing.T) {
	const decade = 10 * 365 * 24 * time.Hour
	for name, with := range map[string]func(time.Duration) server.Options{
		"TokenTTL":    func(d time.Duration) server.Options { return server.Options{TokenTTL: d} },
		"UndoGrace":   func(d time.Duration) server.Options { return server.Options{UndoGrace: d} },
		"TurnTimeout": func(d time.Duration) server.Options { return server.Options{TurnTimeout: d} },
		"Lease":       func(d time.Duration) server.Options { return server.Options{Lease: d} },
		"SessionTTL":  func(d time.Duration) server.Options { return server.Options{SessionTTL: d} },
		"SessionIdle": func(d time.Duration) server.Options { return server.Options{SessionIdle: d} },
	} {
		for d, ok := range map[time.Duration]bool{decade: true, decade + 1: false, math.MaxInt64: false} {
			o := with(d)
			o.Keys = newKeys(t)
			if _, err := server.New(o); ok {
				assert.NoError(t, err, name)
			} else {
				assert.ErrorContains(t, err, "server: Options."+name+" is "+d.String()+"; the longest time is", name)
			}
		}
	}
}

// A nil pointer among the questions is reported like any other mistake in a definition.
func TestNilQuestion(t *testing.T) {
	tool := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "ask", Asks: []steps.Question{(*steps.Form[struct{}])(nil)}},
		Run:  func(*saga.Run, struct{}) (string, error) { return "", nil },
	}
	_, err := server.New(server.Options{Keys: newKeys(t), Tools: []saga.Definition{tool}})
	var wrong *saga.DefinitionError
	assert.ErrorAs(t, err, &wrong)
	assert.ErrorContains(t, err, "Asks[0] is nil")
}
