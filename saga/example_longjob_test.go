package saga_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mcpsaga/mcpsaga/saga"
)

// A long job is cut into pieces. Between two pieces there is a checkpoint, from which another server continues if this
// one dies.
func Example_longJob() {
	type place struct {
		Bucket string `json:"bucket"`
	}
	type state struct{ Done int }
	type turn = saga.Turn[place, state]

	files := []string{"a.txt", "b.txt", "c.txt", "d.txt", "e.txt"}
	upload := &saga.Effect[[]string, int]{
		Name: "upload",
		Do:   func(_ context.Context, _ saga.Key, some []string) (int, error) { return len(some), nil },
		Undo: func(context.Context, saga.Performed[[]string, int]) error { return nil },
	}
	backup := saga.Machine[place, state]{
		Info: saga.Info{
			Name: "backup_all", Effects: []saga.Declared{upload},
			Tasks: saga.Tasks{Mode: saga.TasksOptional, TTL: 6 * time.Hour, Keep: 24 * time.Hour},
		},
		Start: func(t *turn) (saga.Next, error) { return t.Goto("piece") },
		Steps: saga.Steps[place, state]{
			"piece": func(t *turn) (saga.Next, error) {
				rest := files[t.State.Done:]
				n, err := saga.Do(t, upload, rest[:min(2, len(rest))])
				if err != nil {
					return nil, err // all pieces are undone
				}
				t.State.Done += n
				t.Progress(float64(t.State.Done), float64(len(files)), fmt.Sprintf("%d files are in %s", t.State.Done, t.Args.Bucket))
				end, limited := t.Deadline() // of the turn
				switch {
				case t.State.Done == len(files):
					return t.Textf("All %d files are in %s.", t.State.Done, t.Args.Bucket)
				case limited && time.Until(end) < 30*time.Second:
					return t.Pause("piece") // the next turn has time again
				}
				return t.Goto("piece")
			},
		},
	}
	called := modern(serve(nil, backup), "tools/call", object{
		"name": "backup_all", "arguments": object{"bucket": "attic"}, "_meta": object{"progressToken": "p"},
	})
	for event := range strings.SplitSeq(called.Body, "\n\n") {
		if _, params, ok := strings.Cut(event, `"params":`); ok {
			fmt.Println(params)
		}
	}
	// Output:
	// {"progressToken":"p","progress":2,"total":5,"message":"2 files are in attic"}}
	// {"progressToken":"p","progress":4,"total":5,"message":"4 files are in attic"}}
	// {"progressToken":"p","progress":5,"total":5,"message":"5 files are in attic"}}
}
