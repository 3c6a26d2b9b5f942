package saga_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A schema in an order, and with keywords, that no Go type would give it.
const contactSchema = `{
	"type": "object", "title": "Contact", "x-order": 1.50,
	"properties": {"phone": {"type": "string"}, "email": {"$ref": "#mail"}, "by": {"enum": ["phone", "email"]}},
	"$defs": {"mail": {"$anchor": "mail", "type": "string", "minLength": 3}},
	"if": {"properties": {"by": {"const": "phone"}}, "required": ["by"]},
	"then": {"required": ["phone"]}, "else": {"required": ["email"]},
	"additionalProperties": false
}`

type contact struct{ Phone, Email, By string }

func contactTool() saga.Flow[contact, string] {
	return saga.Flow[contact, string]{
		Info: saga.Info{Name: "contact", RawInputSchema: json.RawMessage(contactSchema)},
		Run:  func(_ *saga.Run, in contact) (string, error) { return in.Phone + in.Email, nil },
	}
}

func TestRawInputSchemaIsShownAsItStands(t *testing.T) {
	tool, err := contactTool().Compile()
	require.NoError(t, err)
	assert.Equal(t, `{"type":"object","title":"Contact","x-order":1.50,`+
		`"properties":{"phone":{"type":"string"},"email":{"$ref":"#mail"},"by":{"enum":["phone","email"]}},`+
		`"$defs":{"mail":{"$anchor":"mail","type":"string","minLength":3}},`+
		`"if":{"properties":{"by":{"const":"phone"}},"required":["by"]},`+
		`"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}`, string(tool.InputSchema))
}

func TestRawInputSchemaIsEnforced(t *testing.T) {
	assert.Equal(t, "112", text(t, play(t, contactTool()).start(`{"by":"phone","phone":"112"}`)))
	for _, args := range []string{`{"by":"phone","email":"a@b"}`, `{"by":"email"}`, `{"email":"a"}`, `{"email":"a@b","fax":"1"}`} {
		assert.True(t, play(t, contactTool()).start(args).Result.IsError, args)
	}
}

func TestInputSchemasAreChecked(t *testing.T) {
	for problem, raw := range map[string]string{
		"it is not valid JSON":             `{"type":"object"`,
		"a name occurs twice":              `{"type":"object","type":"object"}`,
		"must have the type object":        `{"type":"string"}`,
		"those that can be used are":       `{"type":"object","$schema":"https://json-schema.org/draft/2019-09/schema"}`,
		"the input schema is not usable":   `{"type":"object","$ref":"https://example.com/elsewhere"}`,
		"the RawInputSchema is not usable": `{"type":1}`,
	} {
		d := contactTool()
		d.RawInputSchema = json.RawMessage(raw)
		_, err := d.Compile()
		assert.ErrorContains(t, err, problem)
	}
	d := contactTool()
	d.InputSchema = &jsonschema.Schema{Type: "object"}
	_, err := d.Compile()
	assert.ErrorContains(t, err, "both an InputSchema and a RawInputSchema")
}

func TestHeaderTags(t *testing.T) {
	type place struct {
		Zone *string `json:"zone,omitempty" header:"Zone"`
	}
	type args struct {
		Region string `json:"region" header:"Region"`
		Where  *place `json:"where"`
		Count  int    `json:"count"`
	}
	tool, err := saga.Flow[args, string]{Info: saga.Info{Name: "x"}, Run: func(*saga.Run, args) (string, error) { return "", nil }}.Compile()
	require.NoError(t, err)
	var s struct {
		Properties struct {
			Region map[string]any
			Count  map[string]any
			Where  struct{ Properties struct{ Zone map[string]any } }
		}
	}
	require.NoError(t, json.Unmarshal(tool.InputSchema, &s))
	assert.Equal(t, "Region", s.Properties.Region["x-mcp-header"])
	assert.Equal(t, "Zone", s.Properties.Where.Properties.Zone["x-mcp-header"])
	assert.NotContains(t, s.Properties.Count, "x-mcp-header")
}

func TestNeed(t *testing.T) {
	flow := saga.Flow[empty, string]{Info: saga.Info{Name: "flow"}, Run: func(r *saga.Run, _ empty) (string, error) { return "done", r.Need(steps.Features{Sampling: true}) }}
	machine := saga.Machine[empty, empty]{Info: saga.Info{Name: "machine"}, Start: func(t *saga.Turn[empty, empty]) (saga.Next, error) {
		if err := t.Need(steps.Features{Sampling: true}); err != nil {
			return nil, err
		}
		return t.Textf("done")
	}}
	for _, d := range []saga.Definition{flow, machine} {
		tool, err := d.Compile()
		require.NoError(t, err)
		out, err := tool.Start(context.Background(), engine.Call{ID: testID, Now: testNow, Client: steps.Features{Sampling: true}})
		require.NoError(t, err)
		assert.Equal(t, "done", text(t, out))
		_, err = tool.Start(context.Background(), engine.Call{ID: testID, Now: testNow, Client: steps.Features{Forms: true}})
		var unsupported *engine.UnsupportedError
		require.ErrorAs(t, err, &unsupported)
		assert.Equal(t, steps.Features{Sampling: true}, unsupported.Needs)
		assert.ErrorContains(t, err, "needs a client with sampling")
	}
}
