package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// With a ledger, each turn of a tool with effects is taken once: the same request again gets
// the same response.
func ExampleOptions_ledger() {
	keys, err := codec.NewKeyset()
	if err != nil {
		fmt.Println(err)
		return
	}
	theatre := new(seats)
	err = withLedger(keys, []saga.Definition{theatre.tool()}, func(s *server.Server) {
		ask := func(method, params string) string {
			result, err := s.Handle(context.Background(), &server.Request{Method: method, Params: []byte(params)})
			if err != nil {
				return err.Error()
			}
			return string(result)
		}
		first := ask("tools/callSaga", `{"name":"seat"}`)
		_, token, _ := strings.Cut(first, `"sagaToken":"`)
		token, _, _ = strings.Cut(token, `"`)
		answer := func(row string) string {
			return ask("tools/resumeSaga", `{"sagaToken":"`+token+`","completedSteps":[{"stepId":"row","result":{"action":"accept","content":{"row":"`+row+`"}}}]}`)
		}
		seven := answer("7")
		fmt.Println("the same again:", answer("7") == seven)
		fmt.Println("something else:", answer("8"))
		held, calls := theatre.now()
		fmt.Println("seats held:", held, "asked for:", calls)
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// the same again: true
	// something else: the saga token is not valid here, or no longer: unless its saga has ended and acted, start again with tools/callSaga
	// seats held: 1 asked for: 1
}

// withLedger runs a server with a ledger. One that outlives the process is opened by package sqlite or postgres.
func withLedger(keys *codec.Keyset, tools []saga.Definition, use func(*server.Server)) error {
	store := ledger.NewMemory(ledger.MemoryOptions{})
	defer store.Close()
	s, err := server.New(server.Options{Keys: keys, Tools: tools, Ledger: store, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer s.Close()
	use(s)
	return nil
}
