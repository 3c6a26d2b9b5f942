package turns

import (
	"encoding/json"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/steps"
)

// What every dialect writes is the same from the record as it was at first.
func TestResponsesAreRecordedExactly(t *testing.T) {
	half := 0.5
	result, at := &content.Result{}, time.Unix(1e9, 1).UTC()
	for _, end := range []End{
		{Outcome: engine.Outcome{Result: result}, Wake: at},
		{Outcome: engine.Outcome{Result: result}, Expires: at},
		{Outcome: engine.Outcome{Result: result, Reworded: []string{"a"}}},
		{Outcome: engine.Outcome{Result: result, Yielded: content.Blocks{content.Text{Text: "a"}}}},
		{Outcome: engine.Outcome{Result: result, Messages: &engine.Messages{}}},
		{Outcome: engine.Outcome{Result: result, Contents: []content.ResourceContents{}}},
		{Outcome: engine.Outcome{Result: result, Steps: []steps.Step{{ID: "s", Params: json.RawMessage(`{}`)}}}},
		{Outcome: engine.Outcome{Result: &content.Result{}}},
		{Outcome: engine.Outcome{Result: &content.Result{IsError: true, Content: content.Blocks{
			content.Text{Text: "a\xffb <&> \u2028", Annotations: &content.Annotations{Priority: &half}, Meta: json.RawMessage(`{ "a" : 1.50 }`)},
			content.Image{Data: []byte{1, 2}, MIMEType: "image/png"}, content.Audio{Data: []byte{}, MIMEType: "audio/wav"},
			content.EmbeddedResource{URI: "x:y", Blob: []byte{}}, content.EmbeddedResource{URI: "x:y", Text: ""}, content.ResourceLink{URI: "x:y", Name: "n"},
			content.Unknown{Raw: json.RawMessage(`{"type":"later", "n": 12345678901234567890}`)},
		}}}},
		{Outcome: engine.Outcome{Disclosed: true, Result: &content.Result{StructuredContent: json.RawMessage(` {"b": 1e2, "a": [ 9007199254740993 ]}`), Meta: map[string]any{
			"z": 1, "a": "x", "m": map[string]any{"k": 1.5}, engine.UndoMetaKey: &engine.UndoReport{Undone: []string{"a"}, Outstanding: []string{}, SagaToken: "t"},
		}}}},
		{Outcome: engine.Outcome{Result: &content.Result{StructuredContent: json.RawMessage(`null`), Meta: map[string]any{}}}, Gone: tokens.ReasonExpired},
		{Outcome: engine.Outcome{Messages: &engine.Messages{Description: "d", Messages: []content.Message{{Role: content.User, Content: content.Text{Text: "hi"}}}}}},
		{Outcome: engine.Outcome{Messages: &engine.Messages{Description: "d\xff"}}},
		{Outcome: engine.Outcome{Result: &content.Result{Meta: map[string]any{"file": "a\xff", "all": []string{"b\xff"}}}}},
		{Outcome: engine.Outcome{Contents: []content.ResourceContents{{URI: "a:b", Text: "t"}, {URI: "a:b", MIMEType: "m", Blob: []byte{}}, {Text: "\xff"}}}},
		{Outcome: engine.Outcome{Contents: []content.ResourceContents{}}},
		{Outcome: engine.Outcome{Reworded: []string{"a"}, Steps: []steps.Step{{ID: "s~2", Kind: steps.Sampling, Params: json.RawMessage(`{"a":1.0}`), Needs: steps.Features{Sampling: true}}}}},
	} {
		raw, err := EncodeResponse(&end, nil)
		require.NoError(t, err)
		again, failure, err := DecodeResponse(raw)
		require.NoError(t, err)
		require.NoError(t, failure)
		second, err := EncodeResponse(&again, nil)
		require.NoError(t, err)
		assert.Equal(t, string(raw), string(second))
		var general response // what has nothing but a result is written and read in a shorter way
		require.NoError(t, jsonv2.Unmarshal(raw, &general))
		third, err := jsonv2.Marshal(general, jsontext.AllowInvalidUTF8(true))
		require.NoError(t, err)
		assert.Equal(t, string(raw), string(third))
		assert.True(t, again.recorded)
		assert.Equal(t, end.Gone, again.Gone)
		assert.Equal(t, end.Disclosed, again.Disclosed)
		assert.Equal(t, end.Reworded, again.Reworded)
		assert.Equal(t, end.Yielded, again.Yielded)
		assert.True(t, end.Wake.Equal(again.Wake) && end.Expires.Equal(again.Expires))
		assert.Equal(t, end.Steps, again.Steps)
		assert.Equal(t, UndoReport(end.Result), UndoReport(again.Result))
		assert.Equal(t, end.Messages == nil, again.Messages == nil)
		assert.Equal(t, end.Contents == nil, again.Contents == nil)
		for i, c := range again.Contents {
			assert.Equal(t, end.Contents[i].Blob == nil, c.Blob == nil)
		}
	}
}
