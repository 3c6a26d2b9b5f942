package gosdk_test

import (
	"encoding/json"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/gosdk"
	"github.com/mcpsaga/mcpsaga/saga"
)

type rows struct {
	Table string `json:"table" enum:"users|orders"`
	Limit int    `json:"limit,omitempty" maximum:"50" default:"10"`
}

type verse struct {
	Tone string `json:"tone" title:"Tone" enum:"sad|glad"`
}

// What tags say about arguments and results is served, and holds, here as well.
func TestTagsOverTheSDK(t *testing.T) {
	query := saga.Flow[rows, rows]{Info: saga.Info{Name: "query"}, Run: func(_ *saga.Run, in rows) (rows, error) { return in, nil }}
	poem := saga.Prompt[verse, none]{
		Machine: saga.Machine[verse, none]{
			Info: saga.Info{Name: "poem"},
			Start: func(t *saga.Turn[verse, none]) (saga.Next, error) {
				return t.Messages()
			},
		},
	}
	tool, err := query.Compile()
	require.NoError(t, err)
	for _, version := range []string{"2025-06-18", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			s := mount(t, gosdk.Options{}, query, poem).connect(version, nil)
			tools, err := s.ListTools(t.Context(), nil)
			require.NoError(t, err)
			for want, got := range map[string]any{string(tool.InputSchema): tools.Tools[0].InputSchema, string(tool.OutputSchema): tools.Tools[0].OutputSchema} {
				raw, err := json.Marshal(got)
				require.NoError(t, err)
				assert.JSONEq(t, want, string(raw))
				assert.Contains(t, want, `"enum":["users","orders"]`)
			}
			r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "query", Arguments: object{"table": "users"}})
			require.NoError(t, err)
			assert.Equal(t, map[string]any{"table": "users", "limit": 10.0}, r.StructuredContent)
			r, err = s.CallTool(t.Context(), &mcp.CallToolParams{Name: "query", Arguments: object{"table": "users; DROP TABLE users"}})
			require.NoError(t, err)
			assert.True(t, r.IsError)
			assert.Contains(t, text(t, r), "does not equal any of: [users orders]")

			prompts, err := s.ListPrompts(t.Context(), nil)
			require.NoError(t, err)
			assert.Equal(t, []*mcp.PromptArgument{{Name: "tone", Title: "Tone", Required: true}}, prompts.Prompts[0].Arguments)
			_, err = s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "poem", Arguments: map[string]string{"tone": "mad"}})
			assert.ErrorContains(t, err, "mad")
		})
	}
}
