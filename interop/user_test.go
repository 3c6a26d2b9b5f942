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
}

// fillIn answers a form.
func (u *user) fillIn(ctx context.Context, message string, schema []byte) (action string, content map[string]any, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.Asked = append(u.Asked, elicitation+message)
	if err := u.pass(ctx); err != nil {
		return "", nil, err
	}
	if len(u.call.Elicit) == 0 {
		return "", nil, fmt.Errorf("nobody said what to answer to: %s", message)
	}
	a := u.call.Elicit[0]
	u.call.Elicit = u.call.Elicit[1:]
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
	if err := u.pass(ctx); err != nil {
		return "", err
	}
	if len(u.call.Sample) == 0 {
		return "", errors.New("nobody said what the model answers")
	}
	answer := u.call.Sample[0]
	u.call.Sample = u.call.Sample[1:]
	return answer, nil
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

// pass lets something happen to the server while it waits for an answer.
func (u *user) pass(ctx context.Context) error {
	if u.call.Between == "" {
		return nil
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, u.call.Between, nil)
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
