package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/jsontest"
)

// firstActs is the life of a booking in MCP 2026-07-28 whose client has the first answer
// before it is asked, so that its first call acts. It has a key, under which it is repeated.
const firstActs = "first call acts"

func (tr *trip) liveWithKey(ctx context.Context, c *cluster) {
	began, next, state, answer := time.Now(), rand.N(replicas), "", journeyOf(tr.script.City)
	for ; ; next++ {
		m, header := stateless(tr.script.City, state, answer)
		m["id"] = 1
		body, err := post(ctx, c.endpoint(next, tr.script.City), m, header)
		switch {
		case err == nil && jsontest.Get(body, "result.resultType").String() == "complete":
			tr.ended(jsontest.Get(body, "result").Raw)
			return
		case err == nil && jsontest.Get(body, "result.requestState").String() != "":
			state, answer = jsontest.Get(body, "result.requestState").String(), yes
			continue
		case err == nil && jsontest.Get(body, "error.code").Raw == "-32602":
			tr.end = "refused"
			tr.fault("refused: %s", body)
			return
		case tr.wasStruck() && tr.back == leaves:
			tr.end, tr.left = "left", time.Now()
			return
		case time.Since(began) > patience:
			tr.end, tr.left = "gave up", time.Now()
			tr.fault("in vain for %v: %s, %v", patience, body, err)
			return
		}
		time.Sleep(50*time.Millisecond + rand.N(200*time.Millisecond))
	}
}

// stateless is the request tools/call of MCP 2026-07-28; the first one has the city's name as
// its key.
func stateless(city, state string, a answer) (map[string]any, http.Header) {
	params := map[string]any{
		"name": "trip", "arguments": map[string]any{"from": "Oslo", "account": "account of " + city},
		"inputResponses": map[string]any{a.StepID: a.Result},
		"_meta": map[string]any{
			"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
			"io.modelcontextprotocol/clientCapabilities": map[string]any{"elicitation": map[string]any{}},
		},
	}
	header := http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"trip"}}
	if state == "" {
		header.Set("Idempotency-Key", `"`+city+`"`)
	} else {
		params["requestState"] = state
	}
	return message("tools/call", params), header
}

// post sends a request on a connection of its own, and returns the answer.
func post(ctx context.Context, url string, m map[string]any, header http.Header) (string, error) {
	if url == "" {
		return "", errors.New("the server is dead")
	}
	raw, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		return "", err
	}
	if header != nil {
		r.Header = header.Clone()
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	return string(bytes.TrimSpace(body)), err
}
