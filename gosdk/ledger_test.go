package gosdk_test

import (
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/internal/jsontest"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// Two SDK servers with one ledger take each turn once, the first one too, if it has a key,
// and say the same to all.
func TestMountedTurnsAreTakenOnce(t *testing.T) {
	store := ledger.NewMemory(ledger.MemoryOptions{})
	rooms, keys := new(rooms), newKeys(t)
	var urls []string
	for range 2 {
		h := mount(t, gosdk.Options{Keys: keys, Ledger: store}, rooms.book(), talk(1))
		urls = append(urls, h.serve())
	}
	send := func(to int, method string, params object, headers ...string) string {
		params["_meta"] = meta(forms)
		headers = append(headers, "Mcp-Protocol-Version", modern, "Mcp-Method", method)
		if name, ok := params["name"].(string); ok {
			headers = append(headers, "Mcp-Name", name)
		}
		status, _, body := post(t, httpClient, urls[to%2], message(1, method, params), headers...)
		require.Equal(t, http.StatusOK, status, body)
		return last(body).Raw
	}
	many := func(method string, params func() object, headers ...string) jsontest.Value {
		bodies := make([]string, 8)
		var all sync.WaitGroup
		for i := range bodies {
			all.Go(func() { bodies[i] = send(i, method, params(), headers...) })
		}
		all.Wait()
		for _, body := range bodies {
			require.Equal(t, bodies[0], body)
		}
		return jsontest.Parse(bodies[0])
	}
	for name, booked := range map[string]func(headers ...string) jsontest.Value{
		"saga": func(headers ...string) jsontest.Value {
			first := many("tools/callSaga", func() object { return object{"name": "book"} }, headers...)
			token := first.Get("result.sagaToken").String()
			require.NotEmpty(t, token, first.Raw)
			return many("tools/resumeSaga", func() object {
				return object{"sagaToken": token, "completedSteps": []object{{"stepId": "sure", "result": object{"action": "accept", "content": object{"sure": true}}}}}
			})
		},
		"MCP 2026-07-28": func(headers ...string) jsontest.Value {
			first := many("tools/call", func() object { return object{"name": "book"} }, headers...)
			state := first.Get("result.requestState").String()
			require.NotEmpty(t, state, first.Raw)
			return many("tools/call", func() object {
				return object{"name": "book", "requestState": state, "inputResponses": object{"sure": object{"action": "accept", "content": object{"sure": true}}}}
			})
		},
	} {
		_, before := rooms.count()
		end := booked("Idempotency-Key", `"key-`+strconv.Itoa(len(name))+`"`)
		assert.False(t, end.Get("result.isError").Bool(), end.Raw)
		_, after := rooms.count()
		assert.Equal(t, 1, after-before, name)
	}
}

// What a mount adds to the process for a ledger ends with Shutdown, or with the store.
func TestShutdownEndsTheWorker(t *testing.T) {
	h := mount(t, gosdk.Options{Ledger: ledger.NewMemory(ledger.MemoryOptions{})}, new(rooms).book())
	h.shutDown()

	store := ledger.NewMemory(ledger.MemoryOptions{})
	mount(t, gosdk.Options{Ledger: store}, new(rooms).book())
	require.NoError(t, store.Close()) // TestMain looks for what is left
}
