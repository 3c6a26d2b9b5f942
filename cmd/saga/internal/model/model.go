// Package model lets a language model answer sampling steps. It speaks chat completions,
// which nearly every endpoint offers, Anthropic's too.
package model

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

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
	// models begin the names of the provider's models.
	models []string
}

var providers = map[string]provider{
	OpenAI:    {"OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1", "chat/completions", []string{"gpt-", "o1", "o3", "o4"}},
	Anthropic: {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "https://api.anthropic.com", "v1/chat/completions", []string{"claude-"}},
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
	// Hints lets the server's hints choose another model of the same provider.
	Hints bool
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

// Name is the model that a request would go to.
func (m *Model) Name(r *steps.SampleRequest) string {
	if m.config.Hints && r.ModelPreferences != nil {
		for _, hint := range r.ModelPreferences.Hints {
			if slices.ContainsFunc(m.provider.models, func(p string) bool { return strings.HasPrefix(hint, p) }) {
				return hint
			}
		}
	}
	return m.config.Model
}

// Host is the machine that requests go to.
func (m *Model) Host() string { return m.base.Host }

// Complete asks the model. Its errors are for the user of this machine: they may name
// addresses, so do not send them to a server.
func (m *Model) Complete(ctx context.Context, r *steps.SampleRequest) (*steps.SampleResult, error) {
	name := m.Name(r)
	request, err := newRequest(name, r)
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
	return response.result(name)
}
