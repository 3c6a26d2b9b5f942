package content_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
)

func TestBoundsOfBlocks(t *testing.T) {
	for block, ok := range map[string]bool{
		`{"type":"text","text":"","annotations":{"priority":0}}`:                              true,
		`{"type":"text","text":"","annotations":{"priority":1}}`:                              true,
		`{"type":"text","text":"","annotations":{"priority":-0.0000000000000001}}`:            false,
		`{"type":"text","text":"","annotations":{"priority":1.0000000000000002}}`:             false,
		`{"type":"resource_link","uri":"a","name":"a","size":9223372036854775807}`:            true,
		`{"type":"resource_link","uri":"a","name":"a","size":9007199254740993.5}`:             false, // nothing is rounded
		`{"type":"resource_link","uri":"a","name":"a","size":0.5}`:                            false,
		`{"type":"resource_link","uri":"a","name":"a","size":1e30}`:                           false,
		`{"type":"resource","resource":{"uri":"a","text":"t","blob":null}}`:                   true,
		`{"type":"resource","resource":{"uri":"a","blob":"","text":"t"}}`:                     true,
		`{"type":"resource","resource":{"uri":"a","blob":null}}`:                              false,
		`{"type":"text","text":"","annotations":null,"_meta":null}`:                           true,
		`{"type":"tool_result","toolUseId":"a","content":[],"isError":null}`:                  true,
		`{"type":"tool_result","toolUseId":"a","content":[],"isError":0}`:                     false,
		`{"type":"resource_link","uri":"a","name":"a","icons":[{"src":"a","sizes":["any"]}]}`: true,
	} {
		_, err := content.ParseBlock([]byte(block))
		assert.Equal(t, ok, err == nil, "%s: %v", block, err)
	}
	b, err := content.ParseBlock([]byte(`{"type":"resource","resource":{"uri":"a","text":"t","blob":null}}`))
	require.NoError(t, err)
	assert.Equal(t, content.EmbeddedResource{URI: "a", Text: "t"}, b)
}
