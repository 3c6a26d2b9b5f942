package steps_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/checkerr"
	"github.com/mcpsaga/mcpsaga/steps"
)

var advice = &steps.Sample{ID: "step-sampling-B", Request: steps.SampleRequest{MaxTokens: 100}}

func TestProposalsSample(t *testing.T) {
	step := mustStep(t, advice.With(steps.Promptf("Is deploying to '%s' safe right now?", "production")))
	assert.Equal(t, steps.Step{ID: "step-sampling-B", Kind: steps.Sampling, Needs: steps.Features{Sampling: true}, Varied: true, Params: json.RawMessage(
		`{"messages":[{"role":"user","content":{"type":"text","text":"Is deploying to 'production' safe right now?"}}],"maxTokens":100}`)}, step)
	require.NoError(t, advice.Verify())
	_, err := advice.Step()
	assert.EqualError(t, err, `question "step-sampling-B": Messages: there are none: ask With(steps.Promptf(...))`)
	assert.NotErrorIs(t, err, steps.ErrNotAsked)
}

// full has every member.
func full() steps.SampleRequest {
	return steps.SampleRequest{
		Messages: []steps.SampleMessage{
			steps.UserText("<What> now?"),
			{Role: content.Assistant, Content: content.Blocks{content.Text{Text: "I look."}, content.ToolUse{ID: "1", Name: "look", Input: json.RawMessage(`{"at":"x"}`)}}},
			{Role: content.User, Content: content.Blocks{content.ToolResult{ToolUseID: "1", Content: content.Blocks{content.Text{Text: "seen"}}}}},
			steps.AssistantText("ok"),
		},
		MaxTokens: 9, SystemPrompt: "be brief",
		ModelPreferences: &steps.ModelPreferences{Hints: []string{"claude", "x"}, CostPriority: new(0.0), SpeedPriority: new(0.5), IntelligencePriority: new(1.0)},
		Temperature:      new(0.7), StopSequences: []string{"END"}, Metadata: json.RawMessage(`{"k":[1]}`), IncludeContext: "thisServer",
		Tools:      []steps.SampleTool{{Name: "look", Title: "Look", Description: "looks", InputSchema: json.RawMessage(`{"type":"object"}`), OutputSchema: json.RawMessage(`{}`)}},
		ToolChoice: "required",
	}
}

func TestSampleRequestRoundTrip(t *testing.T) {
	r := full()
	step := mustStep(t, &steps.Sample{ID: "s", Request: r})
	golden(t, "sample-full", step.Params)
	assert.Equal(t, steps.Features{Sampling: true, SamplingTools: true, SamplingContext: true}, step.Needs)
	got, err := steps.Step{Params: step.Params}.Sample()
	require.NoError(t, err)
	assert.Equal(t, &r, got)
	raw, err := r.MarshalJSON()
	require.NoError(t, err)
	assert.Equal(t, string(step.Params), string(raw))
	var again steps.SampleRequest
	require.NoError(t, json.Unmarshal(raw, &again))
	assert.Equal(t, r, again)

	small := steps.SampleRequest{MaxTokens: 1, Messages: []steps.SampleMessage{steps.UserText("a")}, ModelPreferences: &steps.ModelPreferences{}, Tools: []steps.SampleTool{{Name: "t"}, {Name: "u"}}}
	raw, err = small.AppendParams([]byte("x"))
	require.NoError(t, err)
	assert.Equal(t, `x{"messages":[{"role":"user","content":{"type":"text","text":"a"}}],"maxTokens":1,"modelPreferences":{},"tools":[{"name":"t","inputSchema":{"type":"object"}},{"name":"u","inputSchema":{"type":"object"}}]}`, string(raw))
}

func TestSampleRequestRules(t *testing.T) {
	said := func(role content.Role, blocks ...content.Block) steps.SampleMessage {
		return steps.SampleMessage{Role: role, Content: blocks}
	}
	use := func(id string) content.Block { return content.ToolUse{ID: id, Name: "n"} }
	res := func(id string) content.Block { return &content.ToolResult{ToolUseID: id} }
	messages := func(m ...steps.SampleMessage) func(*steps.SampleRequest) {
		return func(r *steps.SampleRequest) { r.Messages = m }
	}
	for want, change := range map[string]func(*steps.SampleRequest){
		"Messages: there are none":                   messages(),
		"MaxTokens: 0 is not more than 0":            func(r *steps.SampleRequest) { r.MaxTokens = 0 },
		"Temperature: is not a number":               func(r *steps.SampleRequest) { r.Temperature = new(math.NaN()) },
		"Metadata: is not a JSON object":             func(r *steps.SampleRequest) { r.Metadata = json.RawMessage(`[]`) },
		`IncludeContext: "all" is not one of`:        func(r *steps.SampleRequest) { r.IncludeContext = "all" },
		"ToolChoice: there are no Tools to choose":   func(r *steps.SampleRequest) { r.Tools = nil },
		`ToolChoice: "any" is not one of`:            func(r *steps.SampleRequest) { r.ToolChoice = "any" },
		"ModelPreferences.CostPriority: 2 is not":    func(r *steps.SampleRequest) { r.ModelPreferences.CostPriority = new(2.0) },
		"ModelPreferences.SpeedPriority: NaN is not": func(r *steps.SampleRequest) { r.ModelPreferences.SpeedPriority = new(math.NaN()) },
		`Tools[0] "": has no Name`:                   func(r *steps.SampleRequest) { r.Tools = []steps.SampleTool{{}} },
		`Tools[1] "a": there are two tools`:          func(r *steps.SampleRequest) { r.Tools = []steps.SampleTool{{Name: "a"}, {Name: "a"}} },
		`Tools[0] "a": InputSchema is not a JSON object`: func(r *steps.SampleRequest) {
			r.Tools = []steps.SampleTool{{Name: "a", InputSchema: json.RawMessage(`{`)}}
		},
		`Tools[0] "b": OutputSchema is not`: func(r *steps.SampleRequest) {
			r.Tools = []steps.SampleTool{{Name: "b", OutputSchema: json.RawMessage(`1`)}}
		},
		`Messages[0]: the Role "system" is not one`:      messages(said("system", content.Text{})),
		"Messages[0]: has no Content":                    messages(said(content.User)),
		"Messages[0]: holds a nil block":                 messages(said(content.User, (*content.Text)(nil))),
		"Messages[0]: a resource block is not allowed":   messages(said(content.User, content.EmbeddedResource{})),
		"Messages[0]: a tool use belongs":                messages(said(content.User, use("1"))),
		"Messages[0]: a tool result belongs":             messages(said(content.Assistant, res("1"))),
		"Messages[0]: answers the tool use \"1\", which": messages(said(content.User, res("1"))),
		`the tool use "1" at the end has no result`:      messages(said(content.Assistant, use("1"))),
		`Messages[1]: must answer the tool use "2"`:      messages(said(content.Assistant, use("1"), use("2")), said(content.User, res("1"))),
		`Messages[1]: must answer the tool use "1"`:      messages(said(content.Assistant, use("1")), said(content.User, content.Text{})),
		"Messages[1]: a message with tool results must":  messages(said(content.Assistant, use("1")), said(content.User, res("1"), &content.Text{})),
		"Messages[1]: answers the tool use \"1\" twice":  messages(said(content.Assistant, use("1")), said(content.User, res("1"), res("1"))),
		"Messages[0]: image block: member \"_meta\"":     messages(said(content.User, content.Image{Meta: json.RawMessage(`1`)}), said(content.User, &content.Audio{}, &content.Image{})),
	} {
		s := &steps.Sample{ID: "s", Request: full()}
		_, err := s.With(change, nil).Step()
		var qe *steps.QuestionError
		require.ErrorAs(t, err, &qe, want)
		assert.Contains(t, err.Error(), want)
		assert.Equal(t, "s", qe.StepID)
	}
	_, err := (&steps.Sample{ID: "s#", Request: full()}).Step()
	assert.Error(t, err)
	assert.Error(t, (&steps.Sample{ID: "s#", Request: full()}).Verify())
	assert.Error(t, (&steps.Sample{ID: "s"}).Verify(), "no MaxTokens")
}

func TestParseSampleRequestRefusals(t *testing.T) {
	for doc, want := range map[string]string{
		`1`:                              "it is not a JSON object",
		`{}`:                             "messages: must be an array",
		`{"messages":[]}`:                "maxTokens: must be a whole number above 0",
		`{"messages":[1]}`:               "messages[0]: must be an object",
		`{"messages":[{"role":"user"}]}`: "messages[0].content: must be a content block or an array of them",
		`{"messages":[{"role":"user","content":{}}]}`:                                          `messages[0].content: content block: member "type": is missing`,
		`{"messages":[{"role":"x","content":[]}]}`:                                             "messages[0].role: must be user or assistant",
		`{"messages":[],"maxTokens":1,"systemPrompt":1}`:                                       "systemPrompt: must be a string",
		`{"messages":[],"maxTokens":1,"temperature":"1"}`:                                      "temperature: must be a number",
		`{"messages":[],"maxTokens":1,"metadata":1}`:                                           "metadata: must be an object",
		`{"messages":[],"maxTokens":1,"modelPreferences":1}`:                                   "modelPreferences: must be an object",
		`{"messages":[],"maxTokens":1,"stopSequences":[1]}`:                                    "stopSequences: must be a list of strings",
		`{"messages":[],"maxTokens":1,"stopSequences":[null]}`:                                 "stopSequences: must be a list of strings",
		`{"messages":[],"maxTokens":1,"modelPreferences":{"hints":[{"name":"a"},{"name":1}]}}`: "modelPreferences.hints[1].name: must be a string",
		`{"messages":[],"maxTokens":1,"tools":1}`:                                              "tools: must be an array",
		`{"messages":[],"maxTokens":1,"tools":[{}]}`:                                           "tools[0].name: must be a string that is not empty",
		`{"messages":[],"maxTokens":1,"toolChoice":1}`:                                         "toolChoice: must be an object",
	} {
		var r steps.SampleRequest
		assert.EqualError(t, json.Unmarshal([]byte(doc), &r), "question: "+want, doc)
	}
	r, err := steps.Step{Params: json.RawMessage(`{"messages":[],"maxTokens":1,"toolChoice":{}}`)}.Sample()
	require.NoError(t, err)
	assert.Equal(t, "auto", r.ToolChoice)
}

func TestSampleResult(t *testing.T) {
	got, err := advice.Answer(result("step-sampling-B", `{"role":"assistant","content":{"type":"text","text":"Yes, all systems are green."},"model":"client-side-llm-v2"}`))
	require.NoError(t, err)
	assert.Equal(t, steps.SampleResult{Role: content.Assistant, Model: "client-side-llm-v2", Content: content.Blocks{content.Text{Text: "Yes, all systems are green."}}}, got)
	assert.Equal(t, "Yes, all systems are green.", got.Text())
	assert.Empty(t, got.ToolUses())
	raw, err := got.MarshalJSON()
	require.NoError(t, err)
	assert.Equal(t, `{"role":"assistant","content":{"type":"text","text":"Yes, all systems are green."},"model":"client-side-llm-v2"}`, string(raw))

	many := `{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"tool_use","id":"1","name":"n","input":{}},{"type":"text","text":"b"}],"model":"m","stopReason":"toolUse"}`
	var r steps.SampleResult
	require.NoError(t, json.Unmarshal([]byte(many), &r))
	assert.Equal(t, "a\nb", r.Text())
	assert.Equal(t, []content.ToolUse{{ID: "1", Name: "n", Input: json.RawMessage(`{}`)}}, r.ToolUses())
	assert.Equal(t, "toolUse", r.StopReason)
	assert.Equal(t, steps.SampleMessage{Role: content.Assistant, Content: r.Content}, r.Message())
	raw, err = json.Marshal(r)
	require.NoError(t, err)
	assert.Equal(t, many, string(raw))
	_, err = steps.SampleResult{Content: content.Blocks{nil}}.MarshalJSON()
	assert.Error(t, err)

	step := steps.Step{ID: "s"}
	for doc, want := range map[string]string{
		``:                                 "it is not valid JSON",
		`{}`:                               `"role" must be "user" or "assistant"`,
		`{"role":"system"}`:                `"role" must be "user" or "assistant"`,
		`{"role":"assistant"}`:             `"model" must be a string`,
		`{"role":"assistant","model":"m"}`: `"content" must be a content block or an array of them`,
		`{"role":"assistant","model":"m","content":null}`:              `"content" must be a content block or an array of them`,
		`{"role":"assistant","model":"m","content":"yes"}`:             `"content" must be a content block or an array of them`,
		`{"role":"assistant","model":"m","content":{"type":"text"}}`:   `"content": text block: member "text": is missing`,
		`{"role":"assistant","model":"m","content":[],"stopReason":1}`: `"stopReason" must be a string`,
	} {
		var me *checkerr.MalformedError
		require.ErrorAs(t, advice.Check(step, json.RawMessage(doc)), &me, doc)
		assert.Equal(t, &checkerr.MalformedError{StepID: "s", Reason: want}, me)
		_, err := advice.Answer(result("step-sampling-B", doc))
		assert.ErrorAs(t, err, &me)
		assert.Error(t, r.UnmarshalJSON([]byte(doc)))
	}
	assert.NoError(t, advice.Check(step, json.RawMessage(many)))
	_, err = advice.Answer(answers{})
	assert.ErrorIs(t, err, steps.ErrNotAsked)
}

// A function of the author's replaces the messages by a conversation, and leaves those
// of the declaration alone.
func TestMessagesOfASample(t *testing.T) {
	conversation := []steps.SampleMessage{steps.UserText("Is it safe?"), steps.AssistantText("Where?"), steps.UserText("Here.")}
	step := mustStep(t, advice.With(func(r *steps.SampleRequest) { r.Messages = conversation }))
	assert.Empty(t, advice.Request.Messages)
	request, err := step.Sample()
	require.NoError(t, err)
	require.Len(t, request.Messages, 3)
	assert.Equal(t, steps.AssistantText("Where?"), request.Messages[1])
}
