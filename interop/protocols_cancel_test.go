package interop

import (
	"context"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// bookRoom asks for the nights, holds a room, and asks whether to take it.
func bookRoom() saga.Definition {
	type nightsForm struct {
		Nights int `json:"nights"`
	}
	type takeForm struct {
		Take bool `json:"take"`
	}
	askNights := &steps.Form[nightsForm]{ID: "nights", Message: "For how many nights?"}
	askTake := &steps.Form[takeForm]{ID: "take", Message: "Room 7 is held for you. Do you take it?"}
	holdRoom := &saga.Effect[int, int]{
		Name: "hold-room",
		Do:   func(context.Context, saga.Key, int) (int, error) { return 7, nil },
		Undo: func(context.Context, saga.Performed[int, int]) error { return nil },
	}
	return saga.Flow[struct{}, string]{
		Info: saga.Info{Name: "book_room", Asks: []steps.Question{askNights, askTake}, Effects: []saga.Declared{holdRoom}},
		Run: func(r *saga.Run, _ struct{}) (string, error) {
			nights, err := saga.Ask(r, askNights)
			if err != nil {
				return "", err
			}
			if _, err := saga.Do(r, holdRoom, nights.Nights); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, askTake); err != nil {
				return "", err
			}
			return "Room 7 is yours.", nil
		},
	}
}

func recordCancel(r *recorder) {
	first := r.post(`{"jsonrpc":"2.0","id":1,"method":"tools/callSaga","params":{"name":"book_room"}}`)
	second := r.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":"tools/resumeSaga","params":{"sagaToken":%q,"completedSteps":[{"stepId":"nights","result":{"action":"accept","content":{"nights":2}}}]}}`,
		member(r.t, first, "sagaToken")))
	last := r.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"tools/cancelSaga","params":{"sagaToken":%q}}`, member(r.t, second, "sagaToken")))
	require.Contains(r.t, last, `"undone":["hold-room"]`)
}

// recordCancelState shows the last of the exchange only: what comes before is as in
// recordStateless.
func recordCancelState(r *recorder) {
	const (
		meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}`
		call = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"book_room",%s` + meta + `}}`
	)
	headers := []string{"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: book_room"}
	before := &recorder{t: r.t, url: r.url}
	first := before.post(fmt.Sprintf(call, 1, ""), headers...)
	second := before.post(fmt.Sprintf(call, 2, fmt.Sprintf(`"inputResponses":{"nights":{"action":"accept","content":{"nights":2}}},"requestState":%q,`, member(r.t, first, "requestState"))), headers...)
	r.tokens = append(r.tokens, member(r.t, second, "requestState"))
	last := r.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"tools/cancelSaga","params":{"sagaToken":%q,`+meta+`}}`, member(r.t, second, "requestState")),
		"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/cancelSaga")
	require.Contains(r.t, last, `"undone":["hold-room"]`)
}
