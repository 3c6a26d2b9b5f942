package main

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcpsaga/mcpsaga/client"
)

// older is the life of a booking whose client is asked while its one request is served. If
// that is cut off there is no way back.
const older = "one call"

func (tr *trip) liveInOneCall(ctx context.Context, c *cluster) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	user := (&driver{script: tr.script}).handlers()
	options := &mcp.ClientOptions{ElicitationHandler: func(ctx context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
		id := "decision"
		if strings.Contains(r.Params.Message, "Where") {
			id = "journey"
		}
		a, err := user.Elicit(ctx, &client.Request{StepID: id})
		if err != nil {
			return nil, err
		}
		content, _ := a.Content.(map[string]any)
		return &mcp.ElicitResult{Action: string(a.Action), Content: content}, nil
	}}
	var session *mcp.ClientSession
	for try := 0; session == nil; try++ {
		// No proxy: it would hold back what the server asks.
		transport := &mcp.StreamableClientTransport{Endpoint: c.servers[try%replicas].address(), MaxRetries: -1, DisableStandaloneSSE: true}
		var err error
		session, err = mcp.NewClient(&mcp.Implementation{Name: "older", Version: "1"}, options).
			Connect(ctx, transport, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
		if ctx.Err() != nil {
			tr.end = "not connected"
			return
		}
		if err != nil {
			session = nil
			time.Sleep(100 * time.Millisecond)
		}
	}
	defer func() { go session.Close() }() // which may ask a server that is dead
	result, err := session.CallTool(ctx, &mcp.CallToolParams{
		Name: "trip", Arguments: map[string]any{"from": "Oslo", "account": "account of " + tr.script.City},
	})
	if err != nil {
		tr.end, tr.left = "cut off", time.Now()
		return
	}
	raw, err := json.Marshal(result)
	if err != nil {
		tr.fault("%v", err)
	}
	tr.ended(string(raw))
}
