package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/server"
)

// altered is a store whose records somebody has altered.
type altered struct {
	ledger.Store
	on *atomic.Bool
}

func (a altered) Load(ctx context.Context, id store.ID) (*store.Record, error) {
	r, err := a.Store.Load(ctx, id)
	if r != nil && a.on.Load() {
		r.State[len(r.State)-1] ^= 1
	}
	return r, err
}

// An operation whose record cannot be read is neither gone nor failed.
func TestOperationUnknown(t *testing.T) {
	var on atomic.Bool
	r := newAsyncRig(t, func(o *server.Options) { o.Ledger = altered{o.Ledger, &on} })
	c := r.connect("2025-06-18", asyncTools, byUser("ann"))
	c.begin(1, "hour", `{}`, "t")
	c.reaches("t", "completed")
	on.Store(true)
	assert.Equal(t, operationStatus{Status: "unknown"}, c.status("t"))
	assert.Contains(t, r.log.take(), "operation not readable")
	on.Store(false)
	assert.Equal(t, "completed", c.status("t").Status)
}

// A principal's tasks are one set: one that was begun by asynchronous tools is found by the methods of
// 2025-11-25, by the id that the list has.
func TestTasksOfOtherProtocols(t *testing.T) {
	r := newAsyncRig(t)
	ann := r.connect("2025-11-25", `{"experimental":{"asyncTools":{}}}`, byUser("ann"))
	ann.begin(1, "hour", `{}`, "t")
	ann.reaches("t", "completed")
	list := decoded[struct {
		Tasks []struct {
			TaskID string `json:"taskId"`
		}
	}](t, ann.ask(`{"jsonrpc":"2.0","id":2,"method":"tasks/list","params":{}}`))
	require.Len(t, list.Tasks, 1)
	get := func(c *legacyClient, id string) legacyMessage {
		quoted, err := json.Marshal(id)
		require.NoError(t, err)
		return parseLegacy(t, c.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":%s}}`, quoted)))
	}
	m := get(ann, list.Tasks[0].TaskID)
	require.Nil(t, m.Error)
	assert.Contains(t, string(m.Result), `"status":"completed"`)
	bob := r.connect("2025-11-25", `{}`, byUser("bob"))
	require.NotNil(t, get(bob, list.Tasks[0].TaskID).Error)
}
