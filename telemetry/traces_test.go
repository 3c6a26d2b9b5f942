package telemetry_test

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/server"
)

// The second turn, on another replica, in another trace, leads back to where the saga began, though the client
// says nothing of traces.
func TestOneSagaOnTwoReplicas(t *testing.T) {
	in := newReceiver(t)
	keys := newKeys(t)
	first, second := newReplica(t, "first", server.Options{Keys: keys}), newReplica(t, "second", server.Options{Keys: keys})
	v := second.answer(first.call(nil), "yes", nil)
	require.Equal(t, theSecret, v.Get("result.content.0.text").String(), v.Raw)
	first.stop()
	second.stop()

	requests, turns := in.named("tools/call order"), in.named("mcpsaga.turn order")
	require.Len(t, requests, 2)
	require.Len(t, turns, 2)
	effect := in.one(t, "mcpsaga.effect place-order")
	for i, service := range []string{"first", "second"} {
		r, turn := requests[i], turns[i]
		assert.Equal(t, service, r.service)
		assert.Equal(t, tracepb.Span_SPAN_KIND_SERVER, r.Kind)
		assert.Empty(t, r.ParentSpanId)
		assert.Equal(t, "tools/call", r.String("mcp.method.name"))
		assert.Equal(t, "order", r.String("gen_ai.tool.name"))
		assert.Equal(t, "execute_tool", r.String("gen_ai.operation.name"))
		assert.Equal(t, "7", r.String("jsonrpc.request.id"))
		assert.Equal(t, "2026-07-28", r.String("mcp.protocol.version"))
		assert.Equal(t, r.SpanId, turn.ParentSpanId)
		assert.Equal(t, r.TraceId, turn.TraceId)
	}
	assert.NotEqual(t, requests[0].TraceId, requests[1].TraceId)
	assert.Empty(t, turns[0].Links)
	require.Len(t, turns[1].Links, 1)
	assert.Equal(t, requests[0].TraceId, turns[1].Links[0].TraceId)
	assert.Equal(t, requests[0].SpanId, turns[1].Links[0].SpanId)
	assert.Equal(t, []string{"suspended", "done"}, []string{turns[0].String("mcpsaga.outcome"), turns[1].String("mcpsaga.outcome")})
	assert.Equal(t, turns[0].String("mcpsaga.saga.id"), turns[1].String("mcpsaga.saga.id"))
	assert.Equal(t, "mcpsaga.asked", turns[0].Events[0].Name)
	assert.Equal(t, "mcpsaga.answered", turns[1].Events[0].Name)
	assert.Equal(t, turns[1].SpanId, effect.ParentSpanId)
	assert.Equal(t, tracepb.Span_SPAN_KIND_CLIENT, effect.Kind)
	assert.Contains(t, in.names, "mcpsaga.turns")
	assert.Contains(t, in.names, "mcp.server.operation.duration")
}

const (
	clientsTrace = "0af7651916cd43dd8448eb211c80319c"
	clients      = "00-" + clientsTrace + "-b7ad6b7169203331-01"
)

// What the client says in _meta is the parent, and where later turns lead back to.
func TestTheClientsTrace(t *testing.T) {
	in := newReceiver(t)
	r := newReplica(t, "r", server.Options{Keys: newKeys(t)})
	token := r.call(object{"traceparent": clients, "tracestate": "vendor=1"})
	r.answer(token, "fail", nil)
	r.stop()
	requests, turns := in.named("tools/call order"), in.named("mcpsaga.turn order")
	require.Len(t, requests, 2)
	assert.Equal(t, clientsTrace, hex.EncodeToString(requests[0].TraceId))
	assert.Equal(t, "b7ad6b7169203331", hex.EncodeToString(requests[0].ParentSpanId))
	assert.Equal(t, "vendor=1", requests[0].TraceState)
	assert.Equal(t, clientsTrace, hex.EncodeToString(turns[1].Links[0].TraceId))
	assert.Equal(t, "b7ad6b7169203331", hex.EncodeToString(turns[1].Links[0].SpanId))
	assert.Equal(t, "tool_error", requests[1].String("error.type"))
	assert.Equal(t, tracepb.Status_STATUS_CODE_ERROR, requests[1].Status.Code)
	assert.Equal(t, "failed", turns[1].String("mcpsaga.outcome"))
	undo := in.one(t, "mcpsaga.undo place-order")
	assert.Equal(t, turns[1].SpanId, undo.ParentSpanId)
	for _, line := range strings.Split(strings.TrimSpace(r.log.String()), "\n") {
		if strings.Contains(line, `"tool failed"`) {
			assert.Contains(t, line, `"trace_id":"`+hex.EncodeToString(turns[1].TraceId)+`"`)
			assert.Contains(t, line, `"span_id":"`+hex.EncodeToString(turns[1].SpanId)+`"`)
			return
		}
	}
	t.Error("the log has no line of the failure")
}

// Who samples sees all of the sagas that it sees at all, and nothing of others.
func TestSampledSagasAreSeenWhole(t *testing.T) {
	in := newReceiver(t)
	keys := newKeys(t)
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_on")
	all := newReplica(t, "all", server.Options{Keys: keys})
	t.Setenv("OTEL_TRACES_SAMPLER", "parentbased_always_off")
	none := newReplica(t, "none", server.Options{Keys: keys})
	none.answer(all.call(nil), "yes", nil)
	none.answer(none.call(nil), "yes", nil)
	none.answer(all.call(nil), "yes", object{"traceparent": clients[:53] + "00"}) // this client wants no trace
	all.stop()
	none.stop()
	requests, turns := in.named("tools/call order"), in.named("mcpsaga.turn order")
	require.Len(t, requests, 2)
	require.Len(t, turns, 3)
	assert.Equal(t, "none", turns[1].service)
	assert.Equal(t, requests[0].TraceId, turns[1].TraceId)
	assert.Equal(t, requests[0].SpanId, turns[1].ParentSpanId)
	assert.Equal(t, turns[1].SpanId, in.one(t, "mcpsaga.effect place-order").ParentSpanId)
}

// The turns of a task, which any server takes, lead back to the call that began it.
func TestTasksOfALedger(t *testing.T) {
	in := newReceiver(t)
	keys, store := newKeys(t), ledger.NewMemory(ledger.MemoryOptions{})
	defer store.Close()
	front, worker := newReplica(t, "front", server.Options{Keys: keys, Ledger: store, Workers: -1}), newReplica(t, "worker", server.Options{Keys: keys, Ledger: store})
	capable := object{"io.modelcontextprotocol/clientCapabilities": object{"elicitation": object{}, "extensions": object{"io.modelcontextprotocol/tasks": object{}}}}
	begun := front.send("tools/call", "order", object{"name": "order", "arguments": object{"what": theArgument}}, capable)
	worker.send("server/discover", "", object{}, nil) // it begins with the first request
	id := begun.Get("result.taskId").String()
	require.NotEmpty(t, id, begun.Raw)
	status := func() string {
		return front.send("tasks/get", id, object{"taskId": id}, capable).Get("result.status").String()
	}
	require.Eventually(t, func() bool { return status() == "input_required" }, 20*time.Second, 20*time.Millisecond)
	assert.Len(t, sample(worker.scrape(), "mcpsaga_ledger_sagas", `mcpsaga_mode="task"`, `mcpsaga_status="waiting"`), 1)
	updated := front.send("tasks/update", id, object{"taskId": id, "inputResponses": object{"sure": object{"action": "accept", "content": object{"sure": theAnswer}}}}, capable)
	require.Empty(t, updated.Get("error").Raw, updated.Raw)
	require.Eventually(t, func() bool { return status() == "completed" }, 20*time.Second, 20*time.Millisecond)
	front.stop()
	worker.stop()

	call, turns := in.one(t, "tools/call"), in.named("mcpsaga.turn order")
	require.Len(t, turns, 2)
	for _, turn := range turns {
		assert.Equal(t, "worker", turn.service)
		require.Len(t, turn.Links, 1)
		assert.Equal(t, call.SpanId, turn.Links[0].SpanId)
		assert.Equal(t, call.TraceId, turn.TraceId)
		assert.Equal(t, call.SpanId, turn.ParentSpanId)
	}
	assert.Equal(t, turns[1].SpanId, in.one(t, "mcpsaga.effect place-order").ParentSpanId)
}
