// Package model lets a language model answer sampling steps. It speaks chat completions,
// which nearly every endpoint offers, Anthropic's too.
package model

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/outgoing"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Model completes a conversation.
type Model struct {
	name, key string
	endpoint  *url.URL // of chat completions
	patience  time.Duration
}

// New returns the model with that name at an address, the base URL of an API, with that key; getenv looks
// up environment variables. Without a name it returns nil: a person has to answer. Without an address the
// model is OpenAI's or Anthropic's, whichever has a key in the environment. The error says which setting is
// missing or wrong.
func New(name, address, key string, getenv func(string) string) (*Model, error) {
	switch {
	case name == "" && address == "" && key == "":
		return nil, nil
	case name == "":
		return nil, errors.New("no model can be used: its name is missing: set --model")
	}
	path := "chat/completions"
	if address == "" {
		// A key from the environment goes to the address beside it, nowhere else.
		openAI, anthropic := getenv("OPENAI_API_KEY"), getenv("ANTHROPIC_API_KEY")
		if anthropic != "" && (openAI == "" || strings.HasPrefix(name, "claude")) {
			address = cmp.Or(getenv("ANTHROPIC_BASE_URL"), "https://api.anthropic.com")
			key, path = cmp.Or(key, anthropic), "v1/chat/completions"
		} else {
			address, key = getenv("OPENAI_BASE_URL"), cmp.Or(key, openAI)
		}
		if address == "" && key == "" { // endpoints of one's own often need none
			return nil, errors.New("no model can be used: its key is missing: set --model-key, OPENAI_API_KEY or ANTHROPIC_API_KEY")
		}
		address = cmp.Or(address, "https://api.openai.com/v1")
	}
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("no model can be used: %q is not an http or https URL", address)
	}
	if key != "" && base.Scheme != "https" && !outgoing.IsLoopback(base.Hostname()) {
		return nil, fmt.Errorf("no model can be used: its key would cross the network in the clear to %s: use https", base.Host)
	}
	return &Model{name, key, base.JoinPath(path), defaultPatience}, nil
}

// Name is the name of the model.
func (m *Model) Name() string { return m.name }

// Host is the machine that requests go to.
func (m *Model) Host() string { return m.endpoint.Host }

// Complete asks the model. Its errors are for the user of this machine: they may name
// addresses, so do not send them to a server.
func (m *Model) Complete(ctx context.Context, r *steps.SampleRequest) (*steps.SampleResult, error) {
	request, err := m.request(r)
	if err != nil {
		return nil, err
	}
	answer, err := backoff.Retry(ctx, func() ([]byte, error) { return m.post(ctx, request) }, backoff.WithMaxTries(maxTries))
	if err != nil {
		return nil, fmt.Errorf("asking %s: %w", m.Host(), err)
	}
	var completion struct {
		Model   string `json:"model"`
		Choices []struct {
			FinishReason string `json:"finish_reason"`
			Message      struct {
				Content string `json:"content"`
				Refusal string `json:"refusal"`
			} `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(answer, &completion); err != nil {
		return nil, fmt.Errorf("asking %s: %w", m.Host(), err)
	}
	if len(completion.Choices) == 0 {
		return nil, errors.New("the model answered without a choice")
	}
	choice := completion.Choices[0]
	return &steps.SampleResult{
		Role: content.Assistant, Model: cmp.Or(completion.Model, m.name), StopReason: cmp.Or(stopReasons[choice.FinishReason], choice.FinishReason),
		Content: content.Blocks{content.Text{Text: cmp.Or(choice.Message.Content, choice.Message.Refusal)}},
	}, nil
}

// stopReasons are MCP's words for why a model stopped.
var stopReasons = map[string]string{"stop": "endTurn", "length": "maxTokens"}

// request returns a request for a chat completion (https://platform.openai.com/docs/api-reference/chat), of
// text: saga call declares nothing else, and a person can read all of it first.
func (m *Model) request(r *steps.SampleRequest) ([]byte, error) {
	type message struct {
		Role    content.Role `json:"role"`
		Content string       `json:"content"`
	}
	var messages []message
	if r.SystemPrompt != "" {
		messages = append(messages, message{"system", r.SystemPrompt})
	}
	for _, said := range r.Messages {
		for _, block := range said.Content {
			if block.BlockType() != "text" {
				return nil, fmt.Errorf("this model cannot be given content of type %s", block.BlockType())
			}
		}
		messages = append(messages, message{said.Role, said.Content.Text()})
	}
	if len(r.Tools) > 0 {
		return nil, errors.New("this model cannot be given tools")
	}
	limit := "max_tokens"
	if m.Host() == "api.openai.com" {
		limit = "max_completion_tokens" // newer models refuse the old name, and other endpoints know no other
	}
	request := map[string]any{"model": m.name, "messages": messages, limit: r.MaxTokens}
	if r.Temperature != nil {
		request["temperature"] = *r.Temperature
	}
	if len(r.StopSequences) > 0 {
		request["stop"] = r.StopSequences
	}
	return json.Marshal(request)
}

const (
	// maxAnswer is the largest answer read from an endpoint, errors included, in bytes: far
	// more than a model says in one completion.
	maxAnswer = 8 << 20
	// maxTries is how often a request is sent while the endpoint is busy or unreachable.
	maxTries = 3
	// defaultPatience is how long the endpoint has for an answer. Models that think, and those on slow machines, take
	// minutes; one that takes longer is not helped by being asked again.
	defaultPatience = 10 * time.Minute
	// maxReason bounds what is shown of an endpoint's error, in bytes.
	maxReason = 500
)

// post sends a request once. Its error is permanent if sending it again would not help.
func (m *Model) post(ctx context.Context, body []byte) (answer []byte, err error) {
	late := fmt.Errorf("it has not answered within %v: see whether it works, or choose another by --model and --model-url", m.patience)
	ctx, cancel := context.WithTimeoutCause(ctx, m.patience, late)
	defer cancel()
	defer func() {
		if err != nil && errors.Is(context.Cause(ctx), late) {
			err = backoff.Permanent(late)
		}
	}()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return nil, backoff.Permanent(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if m.key != "" {
		request.Header.Set("Authorization", "Bearer "+m.key)
	}
	// A redirect to another origin would take the key and the prompt there.
	response, err := (&http.Client{CheckRedirect: outgoing.CheckRedirect}).Do(request)
	if err != nil {
		if response != nil { // a redirect that is not followed
			err = backoff.Permanent(err)
		}
		return nil, err
	}
	defer response.Body.Close()
	answer, err = outgoing.ReadAll(response.Body, maxAnswer)
	code := response.StatusCode
	switch {
	case errors.Is(err, outgoing.ErrTooLarge):
		return nil, backoff.Permanent(err)
	case err != nil, code == http.StatusOK:
		return answer, err
	}
	var said struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(answer, &said) // what has no reason there is shown as it is
	err = fmt.Errorf("it answered %s: %.*q", response.Status, maxReason, cmp.Or(said.Error.Message, string(answer)))
	if code != http.StatusTooManyRequests && code < 500 {
		err = backoff.Permanent(err)
	}
	return nil, err
}
