package interop

import "testing"

// call is one call of a tool, with what the user and the model behind the client
// answer, in the order in which they are asked.
type call struct {
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments,omitempty"`
	Elicit    []answer       `json:"elicit,omitempty"`
	Sample    []string       `json:"sample,omitempty"`
	// Manual takes each round with a new client.
	Manual bool `json:"manual,omitempty"`
	// Saga calls the tool by the methods of the saga proposal, or goes on from Token.
	Saga  bool   `json:"saga,omitempty"`
	Token string `json:"token,omitempty"`
	// Reads has the model call the tool again, for the next part of a result that says how.
	Reads bool `json:"reads,omitempty"`
	// CancelIn is the round, manual or of a saga, in which nothing is answered but
	// the call cancelled, by tools/cancelSaga.
	CancelIn int `json:"cancelIn,omitempty"`
	// CancelTask cancels the task as soon as there is one.
	CancelTask bool `json:"cancelTask,omitempty"`
	// Between is a URL to POST to while the server waits for an answer, with the question.
	Between string `json:"between,omitempty"`
	// Again: a question that is asked again gets the same answer again.
	Again bool `json:"again,omitempty"`
	// AbortIn is the question, from 1, at which the client gives the call up instead.
	AbortIn int `json:"abortIn,omitempty"`
	// Parallel is how often the tool is called at once, in one session, each time with a
	// message of its own, which is the answer too. Only scripts do.
	Parallel int `json:"parallel,omitempty"`
	// Timeout is how long the client waits for the call, in milliseconds, if that is not to be
	// what its SDK does by itself; Progress has progress put that off.
	Timeout  int  `json:"timeout,omitempty"`
	Progress bool `json:"progress,omitempty"`
}

// answer is what the user does with a form: accepts it with content, over the
// defaults that it shows if Defaults is set, or says decline or cancel.
type answer struct {
	Action   string         `json:"action"`
	Content  map[string]any `json:"content,omitempty"`
	Defaults bool           `json:"defaults,omitempty"`
}

func accept(content map[string]any) answer { return answer{Action: "accept", Content: content} }

// acceptDefaults accepts a form as it is shown.
func acceptDefaults() answer { return answer{Action: "accept", Defaults: true} }

// outcome is how a call ended.
type outcome struct {
	// Asked lists what the client was asked, in order: method and message.
	Asked []string `json:"asked"`
	// Protocol is the revision that client and server agreed on.
	Protocol string `json:"protocol"`
	// Rounds counts the requests of a call that is manual, or a saga.
	Rounds int `json:"rounds"`
	Result struct {
		Content []struct{ Type, Text string } `json:"content"`
		IsError bool                          `json:"isError"`
	} `json:"result"`
	// Task is the id of the task that the call became, if it did, and Statuses are those that
	// the client saw.
	Task     string   `json:"task"`
	Statuses []string `json:"statuses"`
	// Limit is how long the client waits unless it is told otherwise, in milliseconds, if it does
	// not wait for ever.
	Limit int `json:"limit"`
	// Error is a failure of the call itself.
	Error string `json:"error"`
}

// text is the text of the result.
func (o *outcome) text() string {
	if len(o.Result.Content) != 1 {
		return ""
	}
	return o.Result.Content[0].Text
}

// target is a server to connect to: at a URL, or as a process on standard input
// and output.
type target struct {
	URL     string   `json:"url,omitempty"`
	Command string   `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
	// Initialize: the server wants to be greeted by every client.
	Initialize bool `json:"-"`
}

// contender is a client that speaks one protocol: the official ones, and ours.
type contender struct {
	name, protocol string
	// stateless: its protocol knows no sessions, so the server may be another one
	// in each round.
	stateless bool
	// play makes calls one after the other, each with a client of its own.
	play func(t *testing.T, at target, calls []call) []outcome
}

func contenders() []contender {
	return []contender{
		{"TypeScript SDK 1", "2025-11-25", false, nodeClient("v1.mjs", nil)},
		{"TypeScript SDK 2 before 2026-07-28", "2025-11-25", false, nodeClient("v2.mjs", "legacy")},
		{"TypeScript SDK 2", "2026-07-28", true, nodeClient("v2.mjs", map[string]string{"pin": "2026-07-28"})},
		{"TypeScript SDK 2 that finds out", "2026-07-28", true, nodeClient("v2.mjs", "auto")},
		{"Go SDK before 2026-07-28", "2025-11-25", false, goClient("2025-11-25")},
		{"Go SDK", "2026-07-28", true, goClient("2026-07-28")},
		{"this module's client", "saga", true, ownClient("saga")},
		{"this module's client, by rounds", "2026-07-28", true, ownClient("2026-07-28")},
		{"this module's client, in sessions", "2025-11-25", false, ownClient("2025-11-25")},
	}
}
