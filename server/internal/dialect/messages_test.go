package dialect

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server/internal/wire"
)

func TestToolResultsAreWrittenAsByReflection(t *testing.T) {
	for _, r := range []*content.Result{
		content.Resultf("Done."), content.Resultf(""), {}, {Content: content.Blocks{}}, {IsError: true},
		content.Resultf("%s", "quotes \" \\ </script> & \u2028 \x00 \x1f é 😀 \xff"),
		{Content: content.Blocks{content.Text{Text: "a", Meta: json.RawMessage(`{ "b": 1 }`)}, content.Image{Data: []byte{1, 2}, MIMEType: "image/png"}}, IsError: true},
		{Content: content.Blocks{content.Text{Text: "{}"}}, StructuredContent: json.RawMessage(`{ "n": 1 }`)},
		{Meta: map[string]any{"b": 1, "a": []int(nil)}},
	} {
		want, err := wire.Marshal(r)
		require.NoError(t, err)
		got, err := ToolResult(r)
		require.NoError(t, err)
		assert.Equal(t, string(want), string(got))
	}
	for _, r := range []*content.Result{
		{Content: content.Blocks{nil}}, {StructuredContent: json.RawMessage(`{`)}, {Content: content.Blocks{content.Text{Meta: json.RawMessage(`[]`)}}},
	} {
		_, err := wire.Marshal(r)
		require.Error(t, err)
		_, err = ToolResult(r)
		require.Error(t, err)
	}
}

func TestTokensNeedNoEscapes(t *testing.T) {
	const token = "ABCXYZabcxyz0189-_"
	got, err := Suspended(&turns.End{Token: token})
	require.NoError(t, err)
	assert.Equal(t, `{"state":"suspended","sagaToken":`+string(wire.AppendString(nil, token))+`,"steps":[]}`, string(got))
}
