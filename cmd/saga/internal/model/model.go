// Package model lets a language model answer sampling steps. It speaks chat completions,
// which nearly every endpoint offers, Anthropic's too.
package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/cenkalti/backoff/v5"

	"github.com/mcpsaga/mcpsaga/internal/outgoing"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Providers.
const (
	OpenAI    = "openai"
	Anthropic = "anthropic"
	// None means that the person answers, whatever the environment offers.
	None = "none"
)

type provider struct {
	// key and address name the environment variables of the provider's own tools.
	key, address string
	// standard is the address that is used otherwise, and path follows any address.
	standard, path string
}

var providers = map[string]provider{
	OpenAI:    {"OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1", "chat/completions"},
	Anthropic: {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "https://api.anthropic.com", "v1/chat/completions"},
}

// Config says which model answers.
type Config struct {
	// Provider is OpenAI, Anthropic, None, or empty to decide by what else is set.
	Provider string
	// BaseURL is the address of the API; empty means the provider's own.
	BaseURL string
	// Key is the API key. Endpoints on this machine often need none.
	Key string
	// Model is the name of the model.
	Model string
	// Getenv looks up environment variables.
	Getenv func(string) string
}

// ConfigError says which setting is missing or wrong.
type ConfigError struct{ Reason string }

// Error implements error.
func (e *ConfigError) Error() string { return "no model can be used: " + e.Reason }

// Model completes a conversation.
type Model struct {
	config   Config
	provider provider
	base     *url.URL
}

// New returns the model that c describes, or nil if it describes none, so that a
// person has to answer. The error is a [*ConfigError].
func New(c Config) (*Model, error) {
	chosen := c.Provider != ""
	if !chosen {
		c.Provider = c.guess()
	}
	if c.Provider == "" || c.Provider == None {
		return nil, nil
	}
	p, known := providers[c.Provider]
	if !known {
		return nil, &ConfigError{fmt.Sprintf("there is no provider %q; use openai, anthropic or none", c.Provider)}
	}
	if c.Model == "" {
		if !chosen && c.Key == "" && c.BaseURL == "" {
			return nil, nil // a key happens to be in the environment
		}
		return nil, &ConfigError{"its name is missing: set --model or SAGA_MODEL"}
	}
	if c.BaseURL == "" {
		// A key from the environment goes to the address beside it, nowhere else.
		c.BaseURL = c.Getenv(p.address)
		if c.Key == "" {
			c.Key = c.Getenv(p.key)
		}
	}
	if c.BaseURL == "" {
		c.BaseURL = p.standard
		if c.Key == "" {
			return nil, &ConfigError{"its key is missing: set SAGA_MODEL_KEY or " + p.key}
		}
	}
	base, err := url.Parse(c.BaseURL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, &ConfigError{fmt.Sprintf("%q is not an http or https URL", c.BaseURL)}
	}
	return &Model{c, p, base}, nil
}

// guess picks the provider that the settings leave no doubt about.
func (c Config) guess() string {
	openAI, anthropic := c.Getenv("OPENAI_API_KEY") != "", c.Getenv("ANTHROPIC_API_KEY") != ""
	switch {
	case c.BaseURL != "", openAI && !anthropic:
		return OpenAI // for an address, as an endpoint of one's own is called like OpenAI's
	case anthropic && !openAI:
		return Anthropic
	}
	return ""
}

// Name is the name of the model.
func (m *Model) Name() string { return m.config.Model }

// Host is the machine that requests go to.
func (m *Model) Host() string { return m.base.Host }

// Complete asks the model. Its errors are for the user of this machine: they may name
// addresses, so do not send them to a server.
func (m *Model) Complete(ctx context.Context, r *steps.SampleRequest) (*steps.SampleResult, error) {
	request, err := newRequest(m.Name(), r)
	if err != nil {
		return nil, err
	}
	limit := "max_tokens"
	if m.Host() == "api.openai.com" {
		limit = "max_completion_tokens" // newer models refuse the old name, and other endpoints know no other
	}
	request[limit] = r.MaxTokens
	var response completion
	if err := post(ctx, m.base.JoinPath(m.provider.path).String(), m.config.Key, request, &response); err != nil {
		return nil, fmt.Errorf("asking %s: %w", m.Host(), err)
	}
	return response.result(m.Name())
}

const (
	// maxAnswer is the largest answer read from an endpoint, errors included, in bytes: far
	// more than a model says in one completion.
	maxAnswer = 8 << 20
	// maxTries is how often a request is sent while the endpoint is busy or unreachable.
	maxTries = 3
	// maxReason bounds what is shown of an endpoint's error, in bytes.
	maxReason = 500
)

// post sends a request as JSON and decodes the answer into result.
func post(ctx context.Context, url, key string, request, result any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	answer, err := backoff.Retry(ctx, func() ([]byte, error) { return try(ctx, url, key, body) }, backoff.WithMaxTries(maxTries))
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, result)
}

// try sends the request once. Its error is permanent if sending it again would not help.
func try(ctx context.Context, url, key string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, backoff.Permanent(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
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
	answer, err := outgoing.ReadAll(response.Body, maxAnswer)
	switch {
	case errors.As(err, new(*outgoing.TooLargeError)):
		return nil, backoff.Permanent(err)
	case err != nil:
		return nil, err
	case response.StatusCode == http.StatusOK:
		return answer, nil
	}
	err = refusal(response.Status, answer)
	switch code := response.StatusCode; {
	case code == http.StatusRequestTimeout, code == http.StatusConflict, code == http.StatusTooManyRequests, code >= 500:
		if seconds, bad := strconv.Atoi(response.Header.Get("Retry-After")); bad == nil && seconds > 0 && seconds <= 60 {
			return nil, fmt.Errorf("%w (%w)", err, backoff.RetryAfter(seconds))
		}
		return nil, err
	}
	return nil, backoff.Permanent(err)
}

// refusal is an endpoint's error, with the reason that it gives in error.message.
func refusal(status string, answer []byte) error {
	var said struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	reason := string(answer)
	if json.Unmarshal(answer, &said) == nil && said.Error.Message != "" {
		reason = said.Error.Message
	}
	return fmt.Errorf("it answered %s: %.*q", status, maxReason, reason)
}
