package ways

import (
	"encoding/json"
	"maps"
	"net/http"
)

// bySaga is a client of the saga proposal.
func bySaga(l *life) (string, error) {
	c := &caller{life: l}
	result, err := c.again(func() (json.RawMessage, error) { return c.request("call", "tools/callSaga", l.call(plainTool)) })
	for {
		if err != nil {
			return "", err
		}
		var r struct {
			SagaToken string
			Steps     []struct {
				StepID string          `json:"stepId"`
				Params json.RawMessage `json:"params"`
			}
		}
		if err := json.Unmarshal(result, &r); err != nil {
			return "", err
		}
		if r.SagaToken == "" {
			return textOf(result)
		}
		done, name := []object{}, "nothing"
		for _, s := range r.Steps {
			name = questionIn(s.Params)
			done = append(done, object{"stepId": s.StepID, "result": answerTo(name)})
		}
		result, err = c.again(func() (json.RawMessage, error) {
			return c.request("answer "+name, "tools/resumeSaga", object{"sagaToken": r.SagaToken, "completedSteps": done})
		})
	}
}

// modern is a client of 2026-07-28.
type modern struct{ *caller }

func newModern(l *life) modern {
	return modern{&caller{life: l, heard: func(message) error { return nil }}}
}

// send sends a request with all that it needs.
func (c modern) send(name, method string, params object, extensions object) (json.RawMessage, error) {
	return c.again(func() (json.RawMessage, error) {
		params, meta := maps.Clone(params), object{}
		if given, ok := params["_meta"].(object); ok {
			maps.Copy(meta, given)
		}
		meta["io.modelcontextprotocol/protocolVersion"] = "2026-07-28"
		meta["io.modelcontextprotocol/clientCapabilities"] = object{"elicitation": object{"form": object{}}, "extensions": extensions}
		params["_meta"] = meta
		c.header = http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method}}
		for _, member := range []string{"name", "taskId"} {
			if v, ok := params[member].(string); ok {
				c.header.Set("Mcp-Name", v)
			}
		}
		return c.request(name, method, params)
	})
}

// round is a result that may not be the last.
type round struct {
	RequestState  string
	InputRequests map[string]struct{ Params json.RawMessage }
	NextToken     string `json:"nextResumeToken"`
}

// complete calls until nothing is asked any more.
func (c modern) complete(name string, params object) (json.RawMessage, round, error) {
	params = maps.Clone(params)
	for {
		result, err := c.send(name, "tools/call", params, object{})
		if err != nil {
			return nil, round{}, err
		}
		var r round
		if err := json.Unmarshal(result, &r); err != nil {
			return nil, r, err
		}
		if r.RequestState == "" {
			return result, r, nil
		}
		answers := object{}
		for key, q := range r.InputRequests {
			name = "answer " + questionIn(q.Params)
			answers[key] = answerTo(questionIn(q.Params))
		}
		params["requestState"], params["inputResponses"] = r.RequestState, answers
	}
}

// byRounds is a client of multi round-trip requests.
func byRounds(l *life) (string, error) {
	result, _, err := newModern(l).complete("call", l.call(plainTool))
	if err != nil {
		return "", err
	}
	return textOf(result)
}

// byParts is a client that gets the result in parts (SEP-1003).
func byParts(l *life) (string, error) {
	c, call, name := newModern(l), l.call(partsTool), "call"
	for {
		result, r, err := c.complete(name, call)
		if err != nil {
			return "", err
		}
		if r.NextToken == "" {
			return textOf(result)
		}
		name, call["resumeToken"] = "next part", r.NextToken
	}
}

// byTask is a client of the tasks extension (SEP-2663).
func byTask(l *life) (string, error) {
	c := newModern(l)
	result, err := c.send("call", "tools/call", l.call(taskTool), extension)
	if err != nil {
		return "", err
	}
	var created struct{ TaskID string }
	if err := json.Unmarshal(result, &created); err != nil {
		return "", err
	}
	name := "get"
	for answered := map[string]bool{}; ; {
		result, err := c.send(name, "tasks/get", object{"taskId": created.TaskID}, extension)
		if err != nil {
			return "", err
		}
		var task struct {
			Status        string
			Result        json.RawMessage
			Error         *rpcError
			InputRequests map[string]struct{ Params json.RawMessage }
		}
		if err := json.Unmarshal(result, &task); err != nil {
			return "", err
		}
		switch {
		case task.Error != nil:
			return "", task.Error
		case task.Result != nil:
			l.event("completed")
			return textOf(task.Result)
		}
		for key, q := range task.InputRequests {
			if answered[key] {
				continue
			}
			question := questionIn(q.Params)
			l.event("asked " + question)
			_, err := c.send("answer "+question, "tasks/update", object{"taskId": created.TaskID, "inputResponses": object{key: answerTo(question)}}, extension)
			if err != nil {
				return "", err
			}
			answered[key] = true
		}
		if err := c.pause(); err != nil {
			return "", err
		}
	}
}
