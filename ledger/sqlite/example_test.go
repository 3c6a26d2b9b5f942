package sqlite_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// A server keeps what it has to remember in a file.
func Example() {
	dir, err := os.MkdirTemp("", "ledger")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	keys, err := codec.NewKeyset()
	if err != nil {
		fmt.Println(err)
		return
	}
	hello := saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "hello"},
		Run:  func(*saga.Run, struct{}) (string, error) { return "Hello.", nil },
	}
	err = withLedger(context.Background(), filepath.Join(dir, "ledger.db"), keys, []saga.Definition{hello}, func(s *server.Server) {
		_, err := s.Handle(context.Background(), &server.Request{Method: "tools/callSaga", Params: []byte(`{"name":"hello"}`)})
		fmt.Println("called:", err == nil)
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: called: true
}

// withLedger runs a server with a ledger in a file.
func withLedger(ctx context.Context, path string, keys *codec.Keyset, tools []saga.Definition, use func(*server.Server)) error {
	store, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	defer store.Close()
	s, err := server.New(server.Options{Keys: keys, Tools: tools, Ledger: store, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer s.Close()
	use(s)
	return nil
}
