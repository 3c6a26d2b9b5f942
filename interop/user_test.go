package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

// model is the name of the model behind every client.
const model = "a-model"

// user is the person and the model behind one client: they answer what their call
// says, one question at a time. testdata/node/script.mjs has the same in
// JavaScript.
type user struct {
	mu   sync.Mutex
	call call
	*outcome
	// given are the answers by question, if the same are to be given again.
	given map[string]any
	// abort gives the call up, for a reason.
	abort context.CancelCauseFunc
}

// fillIn answers a form.
func (u *user) fillIn(ctx context.Context, message string, schema []byte) (action string, content map[string]any, _ error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.Asked = append(u.Asked, elicitation+message)
	if err := u.pass(ctx, message); err != nil {
		return "", nil, err
	}
	a, err := nextAnswer(u, message, &u.call.Elicit)
	if err != nil {
		return "", nil, err
	}
	if a.Action != "accept" {
		return a.Action, nil, nil
	}
	content = make(map[string]any)
	if a.Defaults {
		if content, err = defaults(schema); err != nil {
			return "", nil, err
		}
	}
	maps.Copy(content, a.Content)
	return a.Action, content, nil
}

// think is what the model answers.
func (u *user) think(ctx context.Context, text string) (string, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	first, _, _ := strings.Cut(text, "\n")
	u.Asked = append(u.Asked, sampling+first)
	if err := u.pass(ctx, first); err != nil {
		return "", err
	}
	return nextAnswer(u, first, &u.call.Sample)
}

// nextAnswer is the answer to a question: the next one, or the one that it got before.
func nextAnswer[A any](u *user, question string, answers *[]A) (a A, err error) {
	if given, ok := u.given[question].(A); ok && u.call.Again {
		return given, nil
	}
	if len(*answers) == 0 {
		return a, fmt.Errorf("nobody said what to answer to: %s", question)
	}
	a, *answers = (*answers)[0], (*answers)[1:]
	if u.given == nil {
		u.given = map[string]any{}
	}
	u.given[question] = a
	return a, nil
}

// limited has a client play a call that may be given up: when the user says so, or its time is over,
// which counts from when play says that the call begins. Until then a client connects, and on a
// machine with much to do that may take longer than a call may.
func (u *user) limited(ctx context.Context, play func(ctx context.Context, begins func()) error) error {
	ctx, u.abort = context.WithCancelCause(ctx)
	defer u.abort(nil)
	begins := sync.OnceFunc(func() {
		if u.call.Timeout > 0 {
			over := time.AfterFunc(time.Duration(u.call.Timeout)*time.Millisecond, func() { u.abort(context.DeadlineExceeded) })
			context.AfterFunc(ctx, func() { over.Stop() })
		}
	})
	if err := play(ctx, begins); err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return nil
}

// defaults returns what a form shows at first.
func defaults(schema []byte) (map[string]any, error) {
	var form struct {
		Properties map[string]struct{ Default any }
	}
	if err := json.Unmarshal(schema, &form); err != nil {
		return nil, err
	}
	content := make(map[string]any)
	for name, field := range form.Properties {
		if field.Default != nil {
			content[name] = field.Default
		}
	}
	return content, nil
}

// pass lets something happen to the server while it waits for an answer, or gives the call up.
func (u *user) pass(ctx context.Context, question string) error {
	if u.call.AbortIn == len(u.Asked) && u.abort != nil {
		u.abort(context.Canceled)
		<-ctx.Done()
		time.Sleep(time.Second) // what the handler returns must not come before the cancellation
		return ctx.Err()
	}
	if u.call.Between == "" {
		return nil
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.call.Between, strings.NewReader(question))
	if err != nil {
		return err
	}
	w, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer w.Body.Close()
	if w.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(w.Body)
		return errors.New(string(text))
	}
	return nil
}
