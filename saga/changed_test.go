package saga_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

func TestRenamedInstances(t *testing.T) {
	flow := func(id string, revision uint32, renamed map[string]string) saga.Definition {
		each, last := &steps.Form[confirmForm]{ID: id, Message: "Sure?"}, &steps.Form[confirmForm]{ID: "last", Message: "Last?"}
		return saga.Flow[empty, string]{Info: saga.Info{Name: "f", Revision: revision, Renamed: renamed, Asks: []steps.Question{each, last}},
			Run: func(r *saga.Run, _ empty) (string, error) {
				for i := range 2 {
					if _, err := saga.Ask(r, each.Nth(i)); err != nil {
						return "", err
					}
				}
				_, err := saga.Ask(r, last)
				return "done", err
			}}
	}
	for answered := range 2 { // before and after the new revision
		s := play(t, flow("old", 0, nil))
		s.start(`{}`)
		s.answer(accept("old#0", yes))
		if answered > 0 {
			s.answer(accept("old#1", yes))
		}
		s.tool = play(t, flow("new", 1, map[string]string{"old": "new"})).tool
		if answered == 0 {
			require.Equal(t, []string{"last"}, ids(s.answer(accept("old#1", yes))))
		}
		assert.Equal(t, "done", text(t, s.answer(accept("last", yes))))
	}
}
