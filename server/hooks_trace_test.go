package server_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/server"
)

const (
	traceOne = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	traceTwo = "00-1bf7651916cd43dd8448eb211c80319c-c8ad6b7169203331-00"
)

// Later turns know the trace context that the first came with.
func TestHooksKnowTheFirstTrace(t *testing.T) {
	header := func(trace string) http.Header { return http.Header{"Traceparent": {trace}} }
	for name, test := range map[string]struct {
		header http.Header
		meta   string
		want   string
	}{
		"none":                {nil, "", ""},
		"header":              {header(traceOne), "", traceOne},
		"_meta":               {nil, traceOne, traceOne},
		"_meta before header": {header(traceTwo), traceOne, traceOne},
		"not valid":           {header("00-x"), strings.Repeat("0", 55), ""},
		"twice":               {http.Header{"Traceparent": {traceOne, traceTwo}}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var requests, turns []string
			s, _, _ := newHooked(t, server.Hooks{
				Request: func(ctx context.Context, r *server.RequestInfo, next next) error {
					requests = append(requests, r.Trace)
					return next(ctx)
				},
				Turn: func(ctx context.Context, i *server.TurnInfo, next next) error {
					turns = append(turns, i.Trace)
					return next(ctx)
				},
			})
			meta := ""
			if test.meta != "" {
				meta = `"traceparent":"` + test.meta + `",`
			}
			first := ann(s, &server.Request{Method: "tools/call", Version: "2026-07-28", Header: test.header, Params: modernParams(`"name":"room"`, meta)})
			second := ann(s, &server.Request{
				Method: "tools/call", Version: "2026-07-28", Header: header(traceTwo),
				Params: modernParams(`"name":"room","requestState":"`+first.Get("requestState").String()+`","inputResponses":{"sure":`+sureYes+`}`, ""),
			})
			assert.Equal(t, "yours", second.Get("content.0.text").String(), second.Raw)
			assert.Equal(t, []string{test.want, traceTwo}, requests)
			assert.Equal(t, []string{test.want, test.want}, turns)
		})
	}
}

// Tokens are longer only where somebody reads what they then hold.
func TestTokensHaveATraceOnlyForHooks(t *testing.T) {
	length := func(trace string, hooks ...server.Hooks) int {
		s, _, _ := newHooked(t, hooks...)
		r := sagaRequest("callSaga", callRoomParams)
		r.Header = http.Header{"Traceparent": {trace}}
		return len(ann(s, r).Get("sagaToken").String())
	}
	passes := server.Hooks{Turn: func(ctx context.Context, _ *server.TurnInfo, next next) error { return next(ctx) }}
	plain := length("")
	assert.Equal(t, plain, length(traceOne), "no hooks")
	assert.Equal(t, plain, length("", passes), "no trace")
	assert.Greater(t, length(traceOne, passes), plain)
}
