package ways

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type orderArgs struct {
	// Order names the call, so that the service knows which deeds belong together.
	Order string `json:"order"`
}

type orderState struct {
	Who      string   `json:"who,omitempty"`
	Receipts []string `json:"receipts,omitempty"`
}

type whoForm struct {
	Name string `json:"name"`
}

type sureForm struct {
	Sure bool `json:"sure"`
}

var (
	askWho  = &steps.Form[whoForm]{ID: "who", Message: "Who are you?"}
	askSure = &steps.Form[sureForm]{ID: "sure", Message: "Sure?"}
)

// nap is how long the tool sleeps.
const nap = 300 * time.Millisecond

// The tools differ in how they may be driven only.
const (
	plainTool = "order"
	taskTool  = "order_as_task"
	partsTool = "order_in_parts"
)

// finished is what each of them says in the end.
const finished = "Ada has: reserve paid ship"

// errConflict is the service's answer to what cannot be done any more.
var errConflict = errors.New("the service refuses")

// api is the service as an effect sees it.
type api struct{ url, caller string }

func (a api) call(ctx context.Context, path string, d deed) error {
	body, err := json.Marshal(d)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Close = true
	r.Header.Set(callerHeader, a.caller)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusConflict:
		return errConflict
	}
	return fmt.Errorf("the service answers %s", resp.Status)
}

func (a api) effect(what string) *saga.Effect[orderArgs, string] {
	return &saga.Effect[orderArgs, string]{
		Name: what,
		Do: func(ctx context.Context, key saga.Key, in orderArgs) (string, error) {
			err := a.call(ctx, doPath, deed{Key: string(key), Order: in.Order, What: what})
			if errors.Is(err, errConflict) {
				err = saga.Refused(err)
			}
			return what, err
		},
		Undo: func(ctx context.Context, p saga.Performed[orderArgs, string]) error {
			return a.call(ctx, undoPath, deed{Key: string(p.Key), Order: p.In.Order, What: what})
		},
	}
}

type turn = saga.Turn[orderArgs, orderState]

// tools are five steps each: two questions, a sleep and three effects.
func tools(a api) []saga.Definition {
	reserve, pay, ship := a.effect("reserve"), a.effect("paid"), a.effect("ship")
	do := func(t *turn, e *saga.Effect[orderArgs, string]) error {
		receipt, err := saga.Do(t, e, t.Args)
		t.State.Receipts = append(t.State.Receipts, receipt)
		return err
	}
	tool := func(name string, tasks saga.Tasks, yields bool) saga.Definition {
		return saga.Machine[orderArgs, orderState]{
			Info: saga.Info{
				Name: name, Yields: yields,
				Asks: []steps.Question{askWho, askSure}, Effects: []saga.Declared{reserve, pay, ship},
				Tasks: tasks,
			},
			Start: func(t *turn) (saga.Next, error) { return t.Ask("known", askWho) },
			Steps: saga.Steps[orderArgs, orderState]{
				"known": func(t *turn) (saga.Next, error) {
					who, err := askWho.Answer(t)
					if err != nil {
						return nil, err
					}
					t.State.Who = who.Name
					if err := do(t, reserve); err != nil {
						return nil, err
					}
					t.Progress(1, 3, "reserved")
					if yields {
						return t.Yield("rest", content.Textf("reserved for %s", who.Name))
					}
					return t.Goto("rest")
				},
				"rest": func(t *turn) (saga.Next, error) { return t.Sleep(nap, "rested") },
				"rested": func(t *turn) (saga.Next, error) {
					if err := do(t, pay); err != nil {
						return nil, err
					}
					return t.Ask("sure", askSure)
				},
				"sure": func(t *turn) (saga.Next, error) {
					sure, err := askSure.Answer(t)
					if err != nil {
						return nil, err
					}
					if !sure.Sure {
						return nil, saga.Failf("not sure")
					}
					if err := do(t, ship); err != nil {
						return nil, err
					}
					return t.Textf("%s has: %s %s %s", t.State.Who, t.State.Receipts[0], t.State.Receipts[1], t.State.Receipts[2])
				},
			},
		}
	}
	return []saga.Definition{
		tool(plainTool, saga.Tasks{}, false),
		tool(taskTool, saga.Tasks{Mode: saga.TasksOptional, Poll: 100 * time.Millisecond}, false),
		tool(partsTool, saga.Tasks{}, true),
	}
}
