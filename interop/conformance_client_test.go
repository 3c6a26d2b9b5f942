package interop

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/client/legacy"
	"github.com/mcpsaga/mcpsaga/steps"
)

// conformanceChild has the test binary be the client that the suite tests.
const conformanceChild = "conformance-client"

// clientScenarios are the suite's for what package client claims: everything but OAuth,
// and what is about skills. How often each check passes is the suite's own number.
var clientScenarios = map[string]struct {
	version string
	passes  int
}{
	"initialize":                           {"2025-11-25", 2},
	"tools_call":                           {"2026-07-28", 2},
	"tools_call, older":                    {"2025-11-25", 2},
	"elicitation-sep1034-client-defaults":  {"2025-11-25", 5},
	"sse-retry":                            {"2025-11-25", 3},
	"request-metadata":                     {"2026-07-28", 8},
	"sep-2322-client-request-state":        {"2026-07-28", 5},
	"http-standard-headers":                {"2026-07-28", 9},
	"http-custom-headers":                  {"2026-07-28", 18},
	"http-invalid-tool-headers":            {"2026-07-28", 12},
	"json-schema-ref-no-deref":             {"2026-07-28", 1},
	"json-schema-2020-12-preservation":     {"2026-07-28", 9},
	"json-schema-2020-12-preservation, 25": {"2025-11-25", 9},
}

// TestClientConformance has the official suite test package client.
func TestClientConformance(t *testing.T) {
	onlyIfWanted(t, "runs the official suite")
	t.Parallel()
	node := needNode(t)
	self, err := os.Executable()
	require.NoError(t, err)
	for name, c := range clientScenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scenario, _, _ := strings.Cut(name, ",")
			dir := t.TempDir()
			out, err := node.command(suite, "client", "--scenario", scenario, "--spec-version", c.version,
				"--command", self+" "+conformanceChild, "--output-dir", dir).CombinedOutput()
			if err != nil {
				t.Errorf("the suite: %v", err)
			}
			files, err := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
			require.NoError(t, err)
			require.Len(t, files, 1, "%s", out)
			var all []check
			require.NoError(t, readJSON(files[0], &all))
			passes := 0
			for _, c := range all {
				switch c.Status {
				case "SUCCESS":
					passes++
				case "FAILURE", "WARNING":
					t.Errorf("%s: %s: %s %s", c.Status, c.ID, c.Description, c.ErrorMessage)
				}
			}
			assert.Equal(t, c.passes, passes, "checks of %s that pass", name)
			if t.Failed() {
				t.Logf("the suite's output:\n%s", out)
			}
		})
	}
}

// playScenario does with a server of the suite what clients do: it lists everything, and
// calls and gets what is there, with the arguments that the suite names.
func playScenario(address string) error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	options := client.Options{Sessions: legacy.Open, Retries: -1}
	if version := os.Getenv("MCP_CONFORMANCE_PROTOCOL_VERSION"); version != "" && version < "2026-07-28" {
		options.Protocol = version
	}
	c := client.New(&client.HTTP{URL: address}, options)
	defer c.Close()
	var given struct {
		ToolCalls []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"toolCalls"`
	}
	if text := os.Getenv("MCP_CONFORMANCE_CONTEXT"); text != "" {
		if err := json.Unmarshal([]byte(text), &given); err != nil {
			return err
		}
	}
	tools, err := c.Tools(ctx)
	if err != nil {
		return err
	}
	handlers := client.Handlers{
		Elicit: func(context.Context, *client.Request) (*client.ElicitResult, error) {
			return client.Accept(map[string]any{}), nil
		},
		Sample: func(context.Context, *client.Request) (*steps.SampleResult, error) {
			return client.Reply("m", "yes"), nil
		},
		Roots: func(context.Context, *client.Request) ([]steps.Root, error) { return nil, nil },
	}
	var failures []error
	note := func(err error) {
		// Servers of some scenarios know no calls, and answer lists without a list.
		var refused *client.Error
		if err != nil && !errors.As(err, new(*client.ProtocolError)) && !(errors.As(err, &refused) && refused.Code == -32601) {
			failures = append(failures, err)
		}
	}
	call := func(name string, arguments json.RawMessage) {
		if _, err := c.Call(ctx, name, arguments, handlers); err != nil {
			note(fmt.Errorf("%s: %w", name, err))
		}
	}
	for _, t := range given.ToolCalls {
		call(t.Name, t.Arguments)
	}
	for _, t := range tools {
		if given.ToolCalls == nil {
			call(t.Name, sample(t.InputSchema, tools[0].InputSchema))
		}
	}
	if len(tools) == 0 {
		call("any", nil)
	}
	prompts, err := c.Prompts(ctx)
	note(err)
	for _, p := range prompts {
		_, err := c.GetPrompt(ctx, p.Name, nil, handlers)
		note(err)
	}
	resources, err := c.Resources(ctx)
	note(err)
	for _, r := range resources {
		_, err := c.ReadResource(ctx, r.URI, handlers)
		note(err)
	}
	return errors.Join(failures...)
}

// sample makes arguments for a schema: of each property one of its type. A schema that is
// asked for is the given one.
func sample(schema, given json.RawMessage) json.RawMessage {
	var wire struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	}
	_ = json.Unmarshal(schema, &wire)
	arguments := map[string]any{}
	for name, property := range wire.Properties {
		kind, _ := property.Type.(string)
		arguments[name] = map[string]any{"integer": 1, "number": 1, "boolean": true, "string": "x", "array": []any{}, "object": map[string]any{}}[cmp.Or(kind, "string")]
		if name == "schema" {
			arguments[name] = given
		}
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(arguments)
	return out.Bytes()
}
