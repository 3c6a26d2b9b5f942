package saga_test

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/mcpsaga/mcpsaga/saga"
)

// A turn can tell how far it has come, and write to the client's log. Who asked
// for neither gets neither.
func ExampleTurn_Progress() {
	type none struct{}
	type turn = saga.Turn[none, none]
	index := saga.Machine[none, none]{
		Info: saga.Info{Name: "index"},
		Start: func(t *turn) (saga.Next, error) {
			files := []string{"a.txt", "b.bin", "c.txt"}
			for i, f := range files {
				if f == "b.bin" {
					t.Log(slog.LevelWarn, map[string]string{"skipped": f})
				}
				t.Progress(float64(i+1), float64(len(files)), f)
			}
			return t.Textf("Indexed.")
		},
	}
	s := serve(nil, index)
	called := modern(s, "tools/call", object{
		"name":  "index",
		"_meta": object{"progressToken": "p", "io.modelcontextprotocol/logLevel": "warning"},
	})
	for event := range strings.SplitSeq(called.Body, "\n\n") {
		if strings.Contains(event, `"method"`) {
			fmt.Println(event)
		}
	}
	// Output:
	// data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1,"total":3,"message":"a.txt"}}
	// data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","logger":"index","data":{"skipped":"b.bin"}}}
	// data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":2,"total":3,"message":"b.bin"}}
	// data: {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":3,"total":3,"message":"c.txt"}}
}
