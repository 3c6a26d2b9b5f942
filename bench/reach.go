package main

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/mcpsaga/mcpsaga/internal/jsontest"
)

// replay is a request that can be sent any number of times, as a token without a
// ledger may be used again, and what its response must hold.
type replay struct {
	headers map[string]string
	body    []byte
	wanted  string
}

// once sends the request.
func (r replay) once(client *fasthttp.HostClient) error {
	_, err := r.send(client)
	return err
}

func (r replay) send(client *fasthttp.HostClient) ([]byte, error) {
	req, resp := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(req)
	defer fasthttp.ReleaseResponse(resp)
	if err := post(client, req, resp, r.headers, r.body); err != nil {
		return nil, err
	}
	body := bytes.Clone(resp.Body())
	if !jsontest.Valid(body) || jsontest.Get(body, "error").Exists() || jsontest.Get(body, "id").Raw != "1" || !bytes.Contains(body, []byte(r.wanted)) {
		return nil, fmt.Errorf("a wrong answer, which should hold %s: %.300s", r.wanted, body)
	}
	return body, nil
}

const goOnAnswer = `{"action":"accept","content":{"go":true}}`

// reach brings a saga of the tools rounds and rounds_flow to the turn that answers
// its n-th question, and returns that turn.
func reach(server *child, protocol, tool string, rounds, size, n int) (replay, error) {
	client := &fasthttp.HostClient{Addr: server.work, ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	call := `"name":"` + tool + `","arguments":{"rounds":` + strconv.Itoa(rounds) + `,"size":` + strconv.Itoa(size) + `}`
	var r replay
	var answered []string
	if protocol == "mrtr" {
		call += "," + meta
		r = replay{headers: map[string]string{}, body: message(1, "tools/call", call), wanted: `"input_required"`}
		for k, v := range mrtrWork.headers {
			r.headers[k] = v
		}
		r.headers["Mcp-Name"] = tool
	} else {
		r = replay{body: message(1, "tools/callSaga", call), wanted: `"suspended"`}
	}
	for range n {
		body, err := r.send(client)
		if err != nil {
			return r, err
		}
		result := jsontest.Get(body, "result")
		if protocol == "mrtr" {
			var id string
			result.Get("inputRequests").ForEach(func(key, _ jsontest.Value) bool { id = key.Raw; return true })
			r.body = message(1, "tools/call", call+`,"inputResponses":{`+id+`:`+goOnAnswer+`},"requestState":`+result.Get("requestState").Raw)
			continue
		}
		answered = append(answered, `{"stepId":`+result.Get("steps.0.stepId").Raw+`,"result":`+goOnAnswer+`}`)
		r.body = message(1, "tools/resumeSaga", `"sagaToken":`+result.Get("sagaToken").Raw+`,"completedSteps":[`+strings.Join(answered, ",")+`]`)
	}
	return r, nil
}
