package durable_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
)

// Who may answer is told until when: no longer than the saga lasts, whoever drives it and whatever ends it.
func TestOthersReadWhenTheSagaEnds(t *testing.T) {
	for name, test := range map[string]struct {
		task bool
		ttl  time.Duration // of the task, as its client wants it
		age  time.Duration
		wait time.Duration // of the task, for its client
		want time.Duration
	}{
		"a task":                   {task: true, want: approve.Within},
		"a short task":             {task: true, ttl: 30 * time.Minute, want: 30 * time.Minute},
		"a task of a short tool":   {task: true, age: 20 * time.Minute, want: 20 * time.Minute},
		"a task that is looked at": {task: true, wait: 10 * time.Minute, want: 10 * time.Minute},
		"a client":                 {want: approve.Within},
		"a client of a short tool": {age: 20 * time.Minute, want: 20 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				s := newShop()
				tool := s.approved(nil).(saga.Flow[none, string])
				tool.MaxAge = test.age
				m := r.manager(nil, tool)
				r.work(m)
				began, from := call(m, "buy", "{}"), time.Now()
				if began.TTL, began.Patience = test.ttl, test.wait; test.task {
					r.start(m, began)
				} else {
					_, err := m.Turns.Call(t.Context(), began.Request)
					require.NoError(t, err)
				}
				time.Sleep(time.Second)
				a, err := m.FindAsked(t.Context(), s.given()[0])
				require.NoError(t, err)
				require.True(t, a.Open)
				assert.WithinDuration(t, from.Add(test.want), a.Until, time.Second)
			})
		})
	}
}
