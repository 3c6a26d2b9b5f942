// Package model lets a language model answer sampling steps: an endpoint that
// speaks OpenAI's chat completions, or Anthropic's messages.
package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/steps"
)

// Model completes a conversation.
type Model struct {
	config Config
	host   string
	// prefixes begin the names of the provider's models.
	prefixes []string
	ask      func(ctx context.Context, name string, r *steps.SampleRequest) (*steps.SampleResult, error)
}

// Complete asks the model. Its errors are for the user of this machine: they may name
// addresses, so do not send them to a server.
func (m *Model) Complete(ctx context.Context, r *steps.SampleRequest) (*steps.SampleResult, error) {
	return m.ask(ctx, m.Name(r), r)
}

// Name is the model that a request would go to.
func (m *Model) Name(r *steps.SampleRequest) string {
	if m.config.Hints && r.ModelPreferences != nil {
		for _, hint := range r.ModelPreferences.Hints {
			if slices.ContainsFunc(m.prefixes, func(p string) bool { return strings.HasPrefix(hint, p) }) {
				return hint
			}
		}
	}
	return m.config.Model
}

// Host is the machine that requests go to.
func (m *Model) Host() string { return m.host }

// Providers.
const (
	OpenAI    = "openai"
	Anthropic = "anthropic"
	// None means that the person answers, whatever the environment offers.
	None = "none"
)

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
	// Getenv looks up what the providers' own tools use: OPENAI_API_KEY,
	// OPENAI_BASE_URL, ANTHROPIC_API_KEY, ANTHROPIC_BASE_URL.
	Getenv func(string) string
}

// ConfigError says which setting is missing or wrong.
type ConfigError struct{ Reason string }

// Error implements error.
func (e *ConfigError) Error() string { return "no model can be used: " + e.Reason }

// New returns the model that c describes, or nil if it describes none, so that a
// person has to answer. The error is a [*ConfigError].
func New(c Config) (*Model, error) {
	chosen := c.Provider != ""
	if !chosen {
		c.Provider = c.guess()
	}
	var envKey, envURL, standard string
	switch c.Provider {
	case "", None:
		return nil, nil
	case OpenAI:
		envKey, envURL, standard = "OPENAI_API_KEY", "OPENAI_BASE_URL", "https://api.openai.com/v1/"
	case Anthropic:
		envKey, envURL, standard = "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "https://api.anthropic.com/"
	default:
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
		c.BaseURL = c.Getenv(envURL)
		if c.Key == "" {
			c.Key = c.Getenv(envKey)
		}
	}
	if c.BaseURL == "" {
		c.BaseURL = standard
		if c.Key == "" {
			return nil, &ConfigError{"its key is missing: set SAGA_MODEL_KEY or " + envKey}
		}
	}
	base, err := url.Parse(c.BaseURL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, &ConfigError{fmt.Sprintf("%q is not an http or https URL", c.BaseURL)}
	}
	if !strings.HasSuffix(c.BaseURL, "/") {
		c.BaseURL += "/"
	}
	if c.Provider == OpenAI {
		return &Model{c, base.Host, []string{"gpt-", "o1", "o3", "o4"}, newOpenAI(c, base.Host)}, nil
	}
	return &Model{c, base.Host, []string{"claude-"}, newAnthropic(c, base.Host)}, nil
}

// guess picks the provider that the settings leave no doubt about.
func (c Config) guess() string {
	openAI, anthropic := c.Getenv("OPENAI_API_KEY") != "", c.Getenv("ANTHROPIC_API_KEY") != ""
	switch {
	case c.BaseURL != "":
		return OpenAI // what nearly every endpoint of one's own speaks
	case openAI && !anthropic:
		return OpenAI
	case anthropic && !openAI:
		return Anthropic
	}
	return ""
}

// stopReason is MCP's word for why a model stopped.
func stopReason(theirs string) string {
	switch theirs {
	case "stop", "end_turn":
		return "endTurn"
	case "length", "max_tokens":
		return "maxTokens"
	case "stop_sequence":
		return "stopSequence"
	case "tool_calls", "function_call", "tool_use":
		return "toolUse"
	}
	return theirs
}

func schemaOf(tool steps.SampleTool) (json.RawMessage, error) {
	schema := map[string]json.RawMessage{"type": json.RawMessage(`"object"`)}
	if tool.InputSchema != nil && json.Unmarshal(tool.InputSchema, &schema) != nil {
		return nil, cannotTake("the schema of the tool " + tool.Name)
	}
	return json.Marshal(schema)
}

func resultText(r content.ToolResult) string {
	if text := r.Content.Text(); text != "" || r.StructuredContent == nil {
		return text
	}
	return string(r.StructuredContent)
}

func inputOf(b content.ToolUse) json.RawMessage {
	if b.Input == nil {
		return json.RawMessage("{}")
	}
	return b.Input
}

// cannotTake says which part of a request a provider cannot be given.
func cannotTake(what string) error { return errors.New("this model cannot be given " + what) }
