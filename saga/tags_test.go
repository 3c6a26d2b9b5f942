package saga_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type table string

func (table) Choices() []steps.Choice {
	return []steps.Choice{{Value: "users", Title: "All users"}, {Value: "orders"}}
}

type within struct {
	Mail string `json:"mail" format:"email"`
	Size int    `json:"size,omitempty" minimum:"1" default:"7"`
}

type shared struct {
	Limit int `json:"limit,omitempty" title:"Rows" minimum:"1" maximum:"50" default:"10"`
}

// tagged has a tag of every kind, in every place where a field can be.
type tagged struct {
	Sort    string            `json:"sort" title:"Order" enum:"up=Upwards|down" jsonschema:"in which order"`
	Only    *string           `json:"only,omitempty" enum:"a|b"`
	Table   table             `json:"table"`
	Others  []table           `json:"others,omitempty" minItems:"1" maxItems:"2" uniqueItems:"true"`
	Columns []string          `json:"columns,omitempty" enum:"id|name" default:"id|name"`
	Counts  map[table]int     `json:"counts,omitempty"`
	Name    string            `json:"name,omitempty" pattern:"^[a-z]+$" minLength:"2" maxLength:"4"`
	Share   float64           `json:"share,omitempty" exclusiveMinimum:"0" exclusiveMaximum:"1"`
	Even    int8              `json:"even,omitempty" multipleOf:"2" maximum:"10"`
	Exact   json.Number       `json:"exact,omitempty" minimum:"0.5"`
	When    time.Time         `json:"when,omitzero"`
	Day     string            `json:"day,omitempty" format:"date"`
	Page    string            `json:"page,omitempty" format:"uri"`
	Dry     bool              `json:"dry,omitempty" default:"true"`
	In      *within           `json:"in,omitempty"`
	List    []within          `json:"list,omitempty"`
	Map     map[string]within `json:"map,omitempty"`
	Key     string            `json:"token,omitempty" notsecret:"the name of a lexer's token" yaml:"key" db:"key" form:"k"`
	shared
}

const taggedSchema = `{"type":"object","additionalProperties":false,"required":["sort","table"],"properties":{
	"sort":{"type":"string","title":"Order","description":"in which order","enum":["up","down"],"oneOf":[{"const":"up","title":"Upwards"},{"const":"down","title":"down"}]},
	"only":{"type":["null","string"],"enum":["a","b",null]},
	"table":{"type":"string","enum":["users","orders"],"oneOf":[{"const":"users","title":"All users"},{"const":"orders","title":"orders"}]},
	"others":{"type":"array","minItems":1,"maxItems":2,"uniqueItems":true,
		"items":{"type":"string","enum":["users","orders"],"oneOf":[{"const":"users","title":"All users"},{"const":"orders","title":"orders"}]}},
	"columns":{"type":["null","array"],"items":{"type":"string","enum":["id","name"]},"default":["id","name"]},
	"counts":{"type":"object","additionalProperties":{"type":"integer"},
		"propertyNames":{"enum":["users","orders"],"oneOf":[{"const":"users","title":"All users"},{"const":"orders","title":"orders"}]}},
	"name":{"type":"string","pattern":"^[a-z]+$","minLength":2,"maxLength":4},
	"share":{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1},
	"even":{"type":"integer","minimum":-128,"maximum":10,"multipleOf":2},
	"exact":{"type":"number","minimum":0.5},
	"when":{"type":"string","format":"date-time"},
	"day":{"type":"string","format":"date"},
	"page":{"type":"string","format":"uri"},
	"dry":{"type":"boolean","default":true},
	"in":{"type":["null","object"],"additionalProperties":false,"required":["mail"],"properties":{"mail":{"type":"string","format":"email"},"size":{"type":"integer","minimum":1,"default":7}}},
	"list":{"type":["null","array"],"items":{"type":"object","additionalProperties":false,"required":["mail"],"properties":{"mail":{"type":"string","format":"email"},"size":{"type":"integer","minimum":1,"default":7}}}},
	"map":{"type":"object","additionalProperties":{"type":"object","additionalProperties":false,"required":["mail"],"properties":{"mail":{"type":"string","format":"email"},"size":{"type":"integer","minimum":1,"default":7}}}},
	"token":{"type":"string"},
	"limit":{"type":"integer","title":"Rows","minimum":1,"maximum":50,"default":10}}}`

// outcomes of a tool that gives its arguments back, as a flow and as a machine.
func taggedTools(t *testing.T) map[string]saga.Definition {
	t.Helper()
	output, err := saga.SchemaFor[tagged]()
	require.NoError(t, err)
	return map[string]saga.Definition{
		"flow": saga.Flow[tagged, tagged]{Info: saga.Info{Name: "x"}, Run: func(_ *saga.Run, in tagged) (tagged, error) { return in, nil }},
		"machine": saga.Machine[tagged, empty]{Info: saga.Info{Name: "x"}, OutputSchema: output,
			Start: func(t *saga.Turn[tagged, empty]) (saga.Next, error) { return t.Structured(t.Args) }},
	}
}

func TestTagsAreInTheSchemas(t *testing.T) {
	for kind, d := range taggedTools(t) {
		tool, err := d.Compile()
		require.NoError(t, err, kind)
		assert.JSONEq(t, taggedSchema, string(tool.InputSchema), kind)
		assert.JSONEq(t, taggedSchema, string(tool.OutputSchema), kind)
	}
}

func TestTagsOfArgumentsAreEnforced(t *testing.T) {
	const mail = "must be an email address"
	for kind, d := range taggedTools(t) {
		tool, err := d.Compile()
		require.NoError(t, err)
		for args, want := range map[string]string{
			`{"sort":"up","table":"users"}`:                                      "",
			`{"sort":"up","table":"users; DROP TABLE users"}`:                    "table: enum",
			`{"sort":"sideways","table":"users"}`:                                "sort: enum",
			`{"sort":"up","table":"users","only":null}`:                          "",
			`{"sort":"up","table":"users","only":"c"}`:                           "only: enum",
			`{"sort":"up","table":"users","others":["users","orders"]}`:          "",
			`{"sort":"up","table":"users","others":[]}`:                          "minItems",
			`{"sort":"up","table":"users","others":null}`:                        "others: type",
			`{"sort":"up","table":"users","others":["users","users"]}`:           "uniqueItems",
			`{"sort":"up","table":"users","others":["users","orders","users"]}`:  "maxItems",
			`{"sort":"up","table":"users","others":["x"]}`:                       "enum",
			`{"sort":"up","table":"users","columns":["name"]}`:                   "",
			`{"sort":"up","table":"users","columns":["email"]}`:                  "enum",
			`{"sort":"up","table":"users","counts":{"orders":1}}`:                "",
			`{"sort":"up","table":"users","counts":{"x":1}}`:                     "propertyNames",
			`{"sort":"up","table":"users","name":"ab"}`:                          "",
			`{"sort":"up","table":"users","name":"a"}`:                           "minLength",
			`{"sort":"up","table":"users","name":"abcde"}`:                       "maxLength",
			`{"sort":"up","table":"users","name":"a1"}`:                          "pattern",
			`{"sort":"up","table":"users","share":0.5}`:                          "",
			`{"sort":"up","table":"users","share":0}`:                            "/share must be more than 0",
			`{"sort":"up","table":"users","share":1}`:                            "/share must be less than 1",
			`{"sort":"up","table":"users","even":10}`:                            "",
			`{"sort":"up","table":"users","even":3}`:                             "/even must be a multiple of 2",
			`{"sort":"up","table":"users","even":12}`:                            "/even must be at most 10",
			`{"sort":"up","table":"users","exact":0.49}`:                         "/exact must be at least 0.5",
			`{"sort":"up","table":"users","when":"2026-07-28T15:04:05Z"}`:        "",
			`{"sort":"up","table":"users","when":"yesterday"}`:                   "/when must be a date and time",
			`{"sort":"up","table":"users","day":"2026-02-28"}`:                   "",
			`{"sort":"up","table":"users","day":"2026-02-29"}`:                   "/day must be a date",
			`{"sort":"up","table":"users","page":"/a"}`:                          "/page must be an absolute URI",
			`{"sort":"up","table":"users","in":{"mail":"a@b"}}`:                  "",
			`{"sort":"up","table":"users","in":null}`:                            "",
			`{"sort":"up","table":"users","in":{"mail":"a"}}`:                    "/in/mail " + mail,
			`{"sort":"up","table":"users","list":[{"mail":"a@b"},{"mail":"a"}]}`: "/list/1/mail " + mail,
			`{"sort":"up","table":"users","map":{"k":{"mail":"a"}}}`:             "/map/k/mail " + mail,
			`{"sort":"up","table":"users","limit":50}`:                           "",
			`{"sort":"up","table":"users","limit":51}`:                           "/limit must be at most 50",
		} {
			out, err := tool.Start(t.Context(), engine.Call{Arguments: json.RawMessage(args)})
			require.NoError(t, err, args)
			if want == "" {
				assert.False(t, out.Result.IsError, "%s %s: %s", kind, args, out.Result.Content)
				continue
			}
			if assert.True(t, out.Result.IsError, "%s %s", kind, args) {
				assert.Contains(t, text(t, out), "The arguments do not fit the tool", args)
				assert.Contains(t, text(t, out), want, args)
			}
		}
	}
}

func TestDefaultsOfArguments(t *testing.T) {
	for kind, d := range taggedTools(t) {
		tool, err := d.Compile()
		require.NoError(t, err)
		for args, want := range map[string]string{
			`{"sort":"up","table":"users"}`: `{"sort":"up","table":"users","columns":["id","name"],"dry":true,"limit":10}`,
			`{"sort":"up","table":"users","columns":["id"],"dry":false,"limit":2,"in":{"mail":"a@b"},"list":[{"mail":"a@b","size":1},{"mail":"c@d"}],"map":{"k":{"mail":"a@b"}}}`: `
				{"sort":"up","table":"users","columns":["id"],"limit":2,"in":{"mail":"a@b","size":7},"list":[{"mail":"a@b","size":1},{"mail":"c@d","size":7}],"map":{"k":{"mail":"a@b","size":7}}}`,
		} {
			for range 2 { // what one call was given is not the next one's
				out, err := tool.Start(t.Context(), engine.Call{Arguments: json.RawMessage(args)})
				require.NoError(t, err)
				assert.JSONEq(t, want, string(out.Result.StructuredContent), "%s: %s", kind, out.Result.Content)
			}
		}
	}
}

// TestDefaultMakesOptional: what has a default may be left out, whatever the json tag says, of a tool and
// of a prompt, and at every level.
func TestDefaultMakesOptional(t *testing.T) {
	type inner struct {
		Size int `json:"size" default:"7"`
	}
	type args struct {
		inner
		Rows  int      `json:"rows" minimum:"1" default:"40"`
		Dry   *bool    `json:"dry" default:"true"`
		Sort  []string `default:"a|b"`
		In    inner    `json:"in"`
		Table string   `json:"table"`
	}
	tool, err := saga.Flow[args, args]{Info: saga.Info{Name: "x"}, Run: func(_ *saga.Run, in args) (args, error) { return in, nil }}.Compile()
	require.NoError(t, err)
	var input jsonschema.Schema
	require.NoError(t, json.Unmarshal(tool.InputSchema, &input))
	assert.ElementsMatch(t, []string{"in", "table"}, input.Required)
	assert.Empty(t, input.Properties["in"].Required)
	assert.JSONEq(t, `40`, string(input.Properties["rows"].Default))
	out, err := tool.Start(t.Context(), engine.Call{Arguments: json.RawMessage(`{"table":"users","in":{}}`)})
	require.NoError(t, err)
	assert.JSONEq(t, `{"size":7,"rows":40,"dry":true,"Sort":["a","b"],"in":{"size":7},"table":"users"}`, string(out.Result.StructuredContent))
	out, err = tool.Start(t.Context(), engine.Call{Arguments: json.RawMessage(`{"table":"users","rows":3,"dry":false,"in":{"size":1}}`)})
	require.NoError(t, err)
	assert.JSONEq(t, `{"size":7,"rows":3,"dry":false,"Sort":["a","b"],"in":{"size":1},"table":"users"}`, string(out.Result.StructuredContent))
	out, err = tool.Start(t.Context(), engine.Call{Arguments: json.RawMessage(`{"table":"users","in":{},"rows":0}`)})
	require.NoError(t, err)
	assert.True(t, out.Result.IsError, "it is still checked")

	type poem struct {
		Day string `json:"day" default:"today"`
	}
	prompt, err := saga.Prompt[poem, empty]{Machine: saga.Machine[poem, empty]{Info: saga.Info{Name: "poem"}, Start: func(t *saga.Turn[poem, empty]) (saga.Next, error) {
		return t.Messages(content.Message{Role: content.User, Content: content.Text{Text: t.Args.Day}})
	}}}.Compile()
	require.NoError(t, err)
	assert.Equal(t, []engine.PromptArgument{{Name: "day"}}, prompt.Arguments)
}

func TestTagsOfResultsAreEnforced(t *testing.T) {
	type result struct {
		Kind string   `json:"kind" enum:"a|b"`
		At   string   `json:"at,omitempty" format:"date"`
		Tags []string `json:"tags" minItems:"1"`
		Note *string  `json:"note" enum:"x|y"`
	}
	for want, r := range map[string]result{
		"":             {Kind: "a", Tags: []string{"t"}},
		"enum":         {Kind: "c", Tags: []string{"t"}},
		"/at must be":  {Kind: "a", At: "today", Tags: []string{"t"}},
		"tags: type: ": {Kind: "a"},
	} {
		output, err := saga.SchemaFor[result]()
		require.NoError(t, err)
		for _, d := range []saga.Definition{
			saga.Flow[empty, result]{Info: saga.Info{Name: "x"}, Run: func(*saga.Run, empty) (result, error) { return r, nil }},
			saga.Machine[empty, empty]{Info: saga.Info{Name: "x"}, OutputSchema: output,
				Start: func(t *saga.Turn[empty, empty]) (saga.Next, error) { return t.Structured(r) }},
		} {
			tool, err := d.Compile()
			require.NoError(t, err)
			out, err := tool.Start(t.Context(), engine.Call{})
			require.NoError(t, err)
			if want == "" {
				assert.NoError(t, out.Err)
			} else {
				assert.ErrorContains(t, out.Err, want)
			}
		}
	}
}

func TestGivenSchemasAgreeWithTags(t *testing.T) {
	type inner struct {
		N int `json:"n" minimum:"1"`
	}
	type args struct {
		Table string  `json:"table" enum:"users|orders"`
		In    []inner `json:"in,omitempty"`
		Limit int     `json:"limit,omitempty" default:"3" notsecret:"a number"`
	}
	tool := func(schema string) error {
		_, err := saga.Flow[args, string]{Info: saga.Info{Name: "x", RawInputSchema: json.RawMessage(schema)},
			Run: func(*saga.Run, args) (string, error) { return "", nil }}.Compile()
		return err
	}
	const table, in, limit = `"table":{"type":"string","enum":["users","orders"]}`, `"in":{"items":{"properties":{"n":{"type":"integer","minimum":1}}}}`, `"limit":{"default":3}`
	require.NoError(t, tool(`{"type":"object","properties":{`+table+`,`+in+`,`+limit+`}}`))
	for want, schema := range map[string]string{
		`saga_test.args.Table, tag enum: the schema that was given instead does not say the same of "table"; write it there, or leave the tag out`: in + `,` + limit,
		`args.Table, tag enum`:    `"table":{"enum":["users"]},` + in + `,` + limit,
		`inner.N, tag minimum`:    `"in":{"items":{"properties":{"n":{"minimum":0}}}},` + table + `,` + limit,
		`inner.N, tag minimum: `:  table + `,` + limit,
		`args.Limit, tag default`: table + `,` + in,
	} {
		assert.ErrorContains(t, tool(`{"type":"object","properties":{`+schema+`}}`), want)
	}

	// A schema made from the type, and changed, agrees.
	schema, err := saga.SchemaFor[args]()
	require.NoError(t, err)
	schema.Properties["limit"].Maximum = jsonschema.Ptr(9.0)
	f := saga.Flow[args, args]{Info: saga.Info{Name: "x", InputSchema: schema}, Run: func(_ *saga.Run, in args) (args, error) { return in, nil }}
	s := play(t, f)
	out := s.start(`{"table":"users"}`)
	assert.JSONEq(t, `{"table":"users","limit":3}`, string(out.Result.StructuredContent))
	assert.True(t, play(t, f).start(`{"table":"users","limit":10}`).Result.IsError)
}

// A member in other letters is another one to the schema, and so to the tool: it brings nothing past the schema. A schema that
// names the fields in other letters itself is read as it always was.
func TestOtherLettersDoNotPassGivenSchemas(t *testing.T) {
	type row struct {
		N int `json:"n,omitempty"`
	}
	type args struct {
		Amount int   `json:"amount,omitempty"`
		Rows   []row `json:"rows,omitempty"`
		Other  int   `default:"3"`
	}
	tool := func(properties string) saga.Flow[args, string] {
		return saga.Flow[args, string]{Info: saga.Info{Name: "x", RawInputSchema: json.RawMessage(`{"type":"object","properties":{` + properties + `}}`)},
			Run: func(_ *saga.Run, in args) (string, error) { return fmt.Sprint(in), nil }}
	}
	const amount, rows, other = `"amount":{"maximum":10}`, `"rows":{"items":{"properties":{"n":{"maximum":10}}}}`, `"Other":{"default":3}`
	s := play(t, tool(amount+","+rows+","+other))
	assert.Equal(t, "{1 [{2}] 4}", text(t, s.start(`{"amount":1,"rows":[{"n":2}],"Other":4}`)))
	assert.Equal(t, "{1 [{2}] 3}", text(t, play(t, tool(amount+","+rows+","+other)).start(`{"amount":1,"Amount":11,"rows":[{"n":2,"N":11}]}`)))
	assert.Equal(t, "{0 [] 3}", text(t, play(t, tool(amount+","+rows+","+other)).start(`{"AMOUNT":11}`)))
	assert.Equal(t, "{7 [] 3}", text(t, play(t, tool(`"AMOUNT":{"maximum":10},`+other)).start(`{"AMOUNT":7}`)))
	assert.Equal(t, "{7 [] 3}", text(t, play(t, tool(other+`},"allOf":[{"properties":{"AMOUNT":{"maximum":10}}}],"$defs":{`)).start(`{"AMOUNT":7}`)))
}

func TestFormatsOfGivenSchemas(t *testing.T) {
	f := saga.Flow[map[string]any, string]{Info: saga.Info{Name: "x", RawInputSchema: json.RawMessage(`{"type":"object","properties":{"mail":{"type":["string","null"],"format":"email"},"host":{"format":"hostname"}},"additionalProperties":{"format":"date"}}`)},
		Run: func(*saga.Run, map[string]any) (string, error) { return "fine", nil }}
	assert.Equal(t, "fine", text(t, play(t, f).start(`{"mail":"a@b","host":" ","d":"2026-01-01"}`)))
	assert.Equal(t, "fine", text(t, play(t, f).start(`{"mail":null,"d":7}`)))
	assert.Contains(t, text(t, play(t, f).start(`{"mail":"a"}`)), "/mail must be an email address")
	assert.Contains(t, text(t, play(t, f).start(`{"d":"a"}`)), "/d must be a date")
}

// Additional properties and items are only those that the schema has no other place for.
func TestFormatsOfOtherPlaces(t *testing.T) {
	f := saga.Flow[map[string]any, string]{Info: saga.Info{Name: "x", RawInputSchema: json.RawMessage(`{"type":"object","patternProperties":{"^x-":{"type":"string"}},
		"properties":{"list":{"prefixItems":[{"type":"string"}],"items":{"type":"string","format":"date"}}},"additionalProperties":{"type":"string","format":"date"}}`)},
		Run: func(*saga.Run, map[string]any) (string, error) { return "fine", nil }}
	assert.Equal(t, "fine", text(t, play(t, f).start(`{"x-a":"no date","list":["no date","2026-01-01"],"d":"2026-01-01"}`)))
}

// Numbers that fit the schema and not the Go type are the caller's mistake.
func TestArgumentsThatTheTypeCannotHold(t *testing.T) {
	type args struct {
		N   int               `json:"n,omitempty"`
		Sub struct{ B []int } `json:"sub,omitzero"`
	}
	f := saga.Flow[args, string]{Info: saga.Info{Name: "x"}, Run: func(*saga.Run, args) (string, error) { return "fine", nil }}
	for in, want := range map[string]string{
		`{"n":1e30}`:                       "n: number 1e30 is not of the type int",
		`{"n":9223372036854775808}`:        "n: number 9223372036854775808 is not of the type int",
		`{"n":9223372036854775808.0}`:      "n: number 9223372036854775808.0 is not of the type int",
		`{"n":9007199254740992.5}`:         "n: number 9007199254740992.5 is not of the type int", // an integer to a float64
		`{"n":1.0,"sub":{"B":[1.0,1e19]}}`: "sub.B.1: number 1e19 is not of the type int",
	} {
		out := play(t, f).start(in)
		assert.True(t, out.Result.IsError)
		assert.True(t, out.Disclosed)
		assert.Equal(t, `The arguments do not fit the tool "x": `+want, text(t, out))
	}
	for _, in := range []string{`{"n":1.5}`, `{"n":1e400}`, `{"n":1e-1}`} {
		assert.True(t, play(t, f).start(in).Result.IsError, in)
	}
}

// To JSON Schema a number is an integer if it has no fraction, however it is written, and none is rounded.
func TestIntegersAreReadHoweverTheyAreWritten(t *testing.T) {
	type count uint16
	type args struct {
		N    int             `json:"n" default:"7"`
		List []count         `json:"list,omitempty"`
		Map  map[string]*int `json:"map,omitempty"`
		Any  any             `json:"any,omitempty"`
		Wait time.Duration   `json:"wait,omitempty"`
	}
	f := saga.Flow[args, args]{Info: saga.Info{Name: "x"}, Run: func(_ *saga.Run, in args) (args, error) { return in, nil }}
	for in, want := range map[string]string{
		`{"n":1.0}`:                      `{"n":1}`,
		`{"n":-0.0}`:                     `{"n":0}`,
		`{"n":0e9}`:                      `{"n":0}`,
		`{"n":-12.50e1}`:                 `{"n":-125}`,
		`{"n":1000000000000000.0}`:       `{"n":1000000000000000}`,
		`{"n":9007199254740993.0}`:       `{"n":9007199254740993}`,
		`{"n":9.223372036854775807E+18}`: `{"n":9223372036854775807}`,
		`{"n":-9223372036854775808.000}`: `{"n":-9223372036854775808}`,
		`{"n":120e-1}`:                   `{"n":12}`,
		`{"list":[2.0,255,2.55e2],"map":{"1.0":3.0},"any":1.0,"wait":1e3}`: `{"n":7,"list":[2,255,255],"map":{"1.0":3},"any":1,"wait":1000}`,
	} {
		out := play(t, f).start(in)
		assert.Equal(t, want, string(out.Result.StructuredContent), in)
	}
}

func TestTagsOfPromptsAndResources(t *testing.T) {
	type poem struct {
		Tone string `json:"tone" title:"Tone" enum:"sad|glad" jsonschema:"how it sounds"`
		Day  string `json:"day,omitempty" format:"date" default:"2026-07-28"`
	}
	prompt, err := saga.Prompt[poem, empty]{
		Machine: saga.Machine[poem, empty]{
			Info: saga.Info{Name: "poem"},
			Start: func(t *saga.Turn[poem, empty]) (saga.Next, error) {
				return t.Messages(content.Message{Role: content.User, Content: content.Text{Text: t.Args.Tone + " " + t.Args.Day}})
			},
		},
	}.Compile()
	require.NoError(t, err)
	assert.Equal(t, []engine.PromptArgument{{Name: "tone", Title: "Tone", Description: "how it sounds", Required: true}, {Name: "day"}}, prompt.Arguments)
	out, err := prompt.Start(t.Context(), engine.Call{Arguments: json.RawMessage(`{"tone":"sad"}`)})
	require.NoError(t, err)
	assert.Equal(t, content.Text{Text: "sad 2026-07-28"}, out.Messages.Messages[0].Content)
	for _, args := range []string{`{"tone":"mad"}`, `{"tone":"sad","day":"today"}`} {
		_, err = prompt.Start(t.Context(), engine.Call{Arguments: json.RawMessage(args)})
		var refused *engine.ArgumentsError
		assert.ErrorAs(t, err, &refused)
	}

	type note struct {
		ID string `json:"id" pattern:"^[0-9]+$"`
	}
	resource, err := saga.Resource[note, empty]{
		Machine: saga.Machine[note, empty]{
			Info: saga.Info{Name: "note"},
			Start: func(t *saga.Turn[note, empty]) (saga.Next, error) {
				return t.Contents(content.ResourceContents{URI: "notes://" + t.Args.ID})
			},
		},
		Template: "notes://{id}",
	}.Compile()
	require.NoError(t, err)
	_, err = resource.Start(t.Context(), engine.Call{Arguments: json.RawMessage(`{"id":"12"}`)})
	require.NoError(t, err)
	_, err = resource.Start(t.Context(), engine.Call{Arguments: json.RawMessage(`{"id":"../12"}`)})
	var refused *engine.ArgumentsError
	assert.ErrorAs(t, err, &refused)

	type misspelt struct {
		Tone string `json:"tone" enums:"sad|glad"`
	}
	_, err = saga.Prompt[misspelt, empty]{Machine: saga.Machine[misspelt, empty]{Info: saga.Info{Name: "poem"}, Start: func(t *saga.Turn[misspelt, empty]) (saga.Next, error) { return nil, nil }}}.Compile()
	assert.ErrorContains(t, err, "misspelt.Tone, tag enums: is written enum")
}
