package telemetry_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/telemetry"
)

// A server that Prometheus can look at, and that exports traces if OTEL_EXPORTER_OTLP_ENDPOINT says where to.
func Example() {
	ctx, metrics := context.Background(), http.NewServeMux() // which in production has a port of its own
	keys, _ := codec.NewKeyset()
	options := server.Options{Keys: keys, Tools: []saga.Definition{orderTool()}}

	exported, err := telemetry.Start(ctx, telemetry.Options{Service: "canteen", Prometheus: true})
	must(err)
	must(exported.Instrument(&options)) // before server.New
	metrics.Handle("GET /metrics", exported.Handler())

	s, err := server.New(options)
	must(err)
	defer func() {
		s.Close()
		must(exported.Shutdown(ctx)) // when the server has ended
	}()

	call := `{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"order","arguments":{"what":"lunch"}}}`
	r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(call))
	r.Header.Set("Content-Type", "application/json")
	s.Handler().ServeHTTP(httptest.NewRecorder(), r)

	w := httptest.NewRecorder()
	metrics.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "mcpsaga_turns_total") || strings.HasPrefix(line, "mcpsaga_questions_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// mcpsaga_questions_total{mcpsaga_kind="tool",mcpsaga_name="order"} 1
	// mcpsaga_turns_total{mcpsaga_action="call",mcpsaga_kind="tool",mcpsaga_name="order",mcpsaga_outcome="suspended",mcpsaga_reason=""} 1
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
