package server_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// Who starts a server with several mistakes reads of all of them.
func TestAllProblemsAtOnce(t *testing.T) {
	tool := func(name, schema string) saga.Definition {
		return saga.Machine[map[string]any, none]{Info: saga.Info{Name: name, RawInputSchema: []byte(schema)},
			Start: func(t *saga.Turn[map[string]any, none]) (saga.Next, error) { return t.Textf("x") }}
	}
	lines := func(o server.Options) []string {
		_, err := server.New(o)
		require.Error(t, err)
		var definition *saga.DefinitionError
		require.ErrorAs(t, err, &definition)
		return strings.Split(err.Error(), "\n")
	}
	got := lines(server.Options{Keys: newKeys(t), Tools: []saga.Definition{tool("a b", `{"type":"object"}`), tool("c", `{"type":"string"}`)}})
	require.Len(t, got, 2)
	assert.Contains(t, got[0], `server: tool "a b": the name must be`)
	assert.Contains(t, got[1], `tool "c": the input schema must have the type object`)

	const twice = `{"type":"object","properties":{"a":{"type":"string","x-mcp-header":7}}}`
	got = lines(server.Options{Keys: newKeys(t), Tools: []saga.Definition{tool("d", twice), tool("e", twice)}})
	require.Len(t, got, 2)
	assert.Contains(t, got[0], `tool "d": the input schema has an x-mcp-header`)
	assert.Contains(t, got[1], `tool "e": the input schema has an x-mcp-header`)
}
