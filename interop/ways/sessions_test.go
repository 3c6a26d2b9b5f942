package ways

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// peer is a client with a session of 2025-11-25, which outlives the server.
type peer struct{ *caller }

func newPeer(l *life, more object) (*peer, error) {
	p := &peer{&caller{life: l}}
	p.heard = func(m message) error { return p.answer(m, nil) }
	capabilities := object{"elicitation": object{}}
	for k, v := range more {
		capabilities[k] = v
	}
	hello := object{"id": 0, "method": "initialize", "params": object{
		"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": object{"name": "raw", "version": "1"},
	}}
	if l.overLines { // each server is another session's
		p.hello = func() error {
			m, err := p.exchange(hello)
			if err == nil && m.Error != nil {
				err = m.Error
			}
			return err
		}
		return p, nil
	}
	_, err := p.again(func() (json.RawMessage, error) {
		resp, err := p.post(hello)
		if err != nil {
			return nil, err
		}
		defer func() { _ = resp.Body.Close() }()
		p.session = resp.Header.Get("Mcp-Session-Id")
		if p.session == "" {
			return nil, fmt.Errorf("no session: %s", resp.Status)
		}
		return nil, nil
	})
	p.header = http.Header{"Mcp-Protocol-Version": {"2025-11-25"}}
	return p, err
}

// answer answers a question, with more members where the protocol needs some. If nothing waits
// for it any more, it was asked by a server that is dead, and is asked again.
func (p *peer) answer(m message, more object) error {
	if m.Method != "elicitation/create" {
		return nil
	}
	question := questionIn(m.Params)
	p.event("asked " + question)
	answer := answerTo(question)
	for k, v := range more {
		answer[k] = v
	}
	accepted, err := p.reply(object{"id": m.ID, "result": answer})
	if accepted {
		p.event("answered " + question)
	}
	return err
}

// waits is a client whose call is a request that waits. When that breaks off it goes on with the
// stream, or sends the same request again if not even the stream has begun. Over lines there are
// no streams, so the call has a key by which it is the same when it comes again.
func waits(l *life, tool string) (string, error) {
	p, err := newPeer(l, nil)
	if err != nil {
		return "", err
	}
	const id = 7
	result, err := p.again(func() (json.RawMessage, error) {
		switch {
		case l.overLines:
			return p.requestWith(id, "call", "tools/call", l.call(tool))
		case p.mark == "":
			return p.requestWith(id, "call", "tools/call", l.plainCall(tool))
		}
		return p.goOn("more")
	})
	if err != nil {
		return "", err
	}
	return textOf(result)
}

// byHandshake is a client that calls a tool which is no task for clients.
func byHandshake(l *life) (string, error) { return waits(l, plainTool) }

// byWaiting is a client that calls a tool for tasks as any other.
func byWaiting(l *life) (string, error) { return waits(l, taskTool) }

// byKey is a client that calls again, with the same key.
func byKey(l *life) (string, error) {
	p, err := newPeer(l, nil)
	if err != nil {
		return "", err
	}
	result, err := p.again(func() (json.RawMessage, error) { return p.request("call", "tools/call", l.call(taskTool)) })
	if err != nil {
		return "", err
	}
	return textOf(result)
}

// byOlderTask is a client of the tasks of 2025-11-25.
func byOlderTask(l *life) (string, error) {
	p, err := newPeer(l, nil)
	if err != nil {
		return "", err
	}
	call := l.call(taskTool)
	call["task"] = object{}
	result, err := p.again(func() (json.RawMessage, error) { return p.request("call", "tools/call", call) })
	if err != nil {
		return "", err
	}
	var created struct{ Task struct{ TaskID string } }
	if err := json.Unmarshal(result, &created); err != nil {
		return "", err
	}
	about := object{"taskId": created.Task.TaskID}
	result, err = p.again(func() (json.RawMessage, error) {
		if _, err := p.request("get", "tasks/get", about); err != nil {
			return nil, err
		}
		return p.request("result", "tasks/result", about)
	})
	if err != nil {
		return "", err
	}
	return textOf(result)
}

// byOperation is a client of asynchronous tools (SEP-1391).
func byOperation(l *life) (string, error) {
	const token = "an operation of nobody else 9d1f7b2c"
	p, err := newPeer(l, object{"experimental": object{"asyncTools": object{}}})
	if err != nil {
		return "", err
	}
	var asked []message
	p.heard = func(m message) error {
		asked = append(asked, m)
		return nil
	}
	call := l.call(taskTool)
	call["operation"] = object{"token": token}
	_, err = p.again(func() (json.RawMessage, error) { return p.request("call", "tools/call", call) })
	var refused *rpcError
	if err != nil && !(errors.As(err, &refused) && refused.Code == -32602 && l.struck) {
		return "", err // unless it was begun by the call that broke
	}
	for {
		result, err := p.again(func() (json.RawMessage, error) {
			return p.request("status", "tools/async/status", object{"token": token})
		})
		if err != nil {
			return "", err
		}
		var operation struct{ Status string }
		if err := json.Unmarshal(result, &operation); err != nil {
			return "", err
		}
		for _, m := range asked {
			if err := p.answer(m, object{"_operation": object{"token": token}}); err != nil && !errors.Is(err, errBroken) {
				return "", err
			}
		}
		asked = nil
		switch operation.Status {
		case "completed":
			result, err := p.again(func() (json.RawMessage, error) {
				return p.request("result", "tools/async/result", object{"token": token})
			})
			if err != nil {
				return "", err
			}
			var r struct{ Result json.RawMessage }
			if err := json.Unmarshal(result, &r); err != nil {
				return "", err
			}
			return textOf(r.Result)
		case "submitted", "working", "input_required":
		default:
			return "", fmt.Errorf("the operation is %s", result)
		}
		if err := p.pause(); err != nil {
			return "", err
		}
	}
}

// byResuming is a client of resumable requests (SEP-975).
func byResuming(l *life) (string, error) { return resumes(l, taskTool) }

// byResumingLater is one that calls a tool which is no task for clients, and takes so long for its
// first answer that it is told how to resume the call.
func byResumingLater(l *life) (string, error) { return resumes(l, plainTool) }

func resumes(l *life, tool string) (string, error) {
	p, err := newPeer(l, object{"resumableRequests": object{}})
	if err != nil {
		return "", err
	}
	const id = 7
	token := ""
	var later *message
	p.heard = func(m message) error {
		if m.Method == "elicitation/create" && tool == plainTool && token == "" {
			later = &m
			return nil
		}
		if m.Method != "notifications/requests/resumePolicy" {
			return p.answer(m, nil)
		}
		var policy struct{ ResumeToken string }
		if err := json.Unmarshal(m.Params, &policy); err != nil {
			return err
		}
		if token = policy.ResumeToken; token == "" {
			return fmt.Errorf("no token: %s", m.Params)
		}
		l.event("policy")
		if m := later; m != nil {
			later = nil
			return p.answer(*m, nil)
		}
		return nil
	}
	result, err := p.again(func() (json.RawMessage, error) {
		switch {
		case token == "" && (l.overLines || tool == taskTool):
			return p.requestWith(id, "call", "tools/call", l.call(tool))
		case token == "" && p.mark == "":
			return p.requestWith(id, "call", "tools/call", l.plainCall(tool))
		case token == "":
			return p.goOn("more")
		}
		if _, err := p.request("", "requests/getStatus", object{"requestId": id, "resumeToken": token}); err != nil {
			return nil, err
		}
		return p.requestWith(id, "resume", "requests/resume", object{"resumeToken": token})
	})
	if err != nil {
		return "", err
	}
	return textOf(result)
}
