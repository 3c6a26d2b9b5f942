package interop

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"testing"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/client/legacy"
	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/steps"
)

// ownClient makes calls with this module's own client, over one of the protocols that it
// speaks.
func ownClient(protocol string) func(*testing.T, target, []call) []outcome {
	return func(t *testing.T, at target, calls []call) []outcome {
		outcomes := make([]outcome, len(calls))
		for i, c := range calls {
			outcomes[i].Protocol = protocol
			u := &own{user: &user{call: c, outcome: &outcomes[i]}}
			err := u.limited(t.Context(), func(ctx context.Context, begins func()) error {
				u.begins = begins
				return u.play(ctx, at)
			})
			if err != nil {
				outcomes[i].Error = err.Error()
			}
		}
		return outcomes
	}
}

// own is our client with the user behind it.
type own struct {
	*user
	begins   func() // is told when a call does
	position *client.Position
	read     content.Blocks
}

var resumeToken = regexp.MustCompile(`resumeToken: (\S+)$`)

// errNextRound stops a manual call at each suspension.
var errNextRound = errors.New("the next round is for another client")

func (u *own) play(ctx context.Context, at target) error {
	for {
		u.Rounds++
		result, err := u.round(ctx, at)
		var stopped *client.InterruptedError
		if errors.Is(err, errNextRound) && errors.As(err, &stopped) {
			u.position = &stopped.Position
			continue
		}
		if err != nil {
			return err
		}
		if again := resumeToken.FindStringSubmatch(result.Content.Text()); u.call.Reads && again != nil {
			// The model reads on: a session's client knows nothing of parts.
			n := len(result.Content) - 1
			u.read = append(u.read, result.Content[:n]...)
			u.call.Arguments = map[string]any{"resumeToken": again[1]}
			continue
		}
		result.Content = append(u.read, result.Content...)
		raw, err := json.Marshal(result)
		if err != nil {
			return err
		}
		return json.Unmarshal(raw, &u.Result)
	}
}

// round begins or continues the call with a client of its own, and goes to its
// end unless the call is manual.
func (u *own) round(ctx context.Context, at target) (*client.Result, error) {
	var transport client.Transport = &client.HTTP{URL: at.URL}
	if at.URL == "" {
		transport = &client.Stdio{Command: at.Command, Args: at.Args, Stderr: io.Discard, Initialize: at.Initialize}
	}
	c := client.New(transport, client.Options{Protocol: u.Protocol, Sessions: legacy.Open})
	defer c.Close()
	handlers := client.Handlers{Elicit: u.elicit, Sample: u.sample, OnProgress: func(p client.Progress) {
		if p.Task != nil {
			u.Task, u.Statuses = p.Task.ID, append(u.Statuses, p.Task.Status)
		}
	}}
	if u.call.Manual {
		token := ""
		if u.position != nil {
			token = u.position.Token
		}
		handlers.OnPosition = func(_ context.Context, p client.Position) error {
			if p.Token != token || u.position != nil && p.Task != u.position.Task {
				return errNextRound
			}
			return nil
		}
	}
	if u.position != nil {
		return c.Resume(ctx, *u.position, handlers)
	}
	if u.call.Timeout > 0 {
		if _, err := c.Tools(ctx); err != nil { // which connects
			return nil, err
		}
		u.begins()
	}
	return c.Call(ctx, u.call.Tool, u.call.Arguments, handlers)
}

func (u *own) elicit(ctx context.Context, r *client.Request) (*client.ElicitResult, error) {
	action, content, err := u.fillIn(ctx, r.Message, r.Schema)
	if err != nil {
		return nil, err
	}
	if action != "accept" {
		return &client.ElicitResult{Action: action}, nil
	}
	return client.Accept(content), nil
}

func (u *own) sample(ctx context.Context, r *client.Request) (*steps.SampleResult, error) {
	answer, err := u.think(ctx, r.Sample.Messages[0].Content.Text())
	if err != nil {
		return nil, err
	}
	return client.Reply(model, answer), nil
}
