package steps_test

import (
	"testing"

	"github.com/mcpsaga/mcpsaga/steps"
	"github.com/stretchr/testify/require"
)

type Target struct {
	Target string `json:"target"`
}

func TestProposalExamples(t *testing.T) {
	form := &steps.Form[Target]{ID: "step-elicitation-A", Message: "Please provide the deployment target:"}
	step, err := form.Step()
	require.NoError(t, err)
	require.Equal(t, `{"message":"Please provide the deployment target:","requestedSchema":{"type":"object","properties":{"target":{"type":"string"}},"required":["target"]}}`, string(step.Params))
	sample := &steps.Sample{ID: "step-sampling-B", Request: steps.SampleRequest{MaxTokens: 100}}
	step, err = sample.With(steps.Prompt("Is deploying to '%s' safe right now?", "production")).Step()
	require.NoError(t, err)
	require.Equal(t, `{"messages":[{"role":"user","content":{"type":"text","text":"Is deploying to 'production' safe right now?"}}],"maxTokens":100}`, string(step.Params))
}
