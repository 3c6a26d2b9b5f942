package steps_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/cputime"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A hostile server may send a client as much as fits into a message. To compare
// each part with each took minutes.
func TestLargeRequestsAreReadInNoTime(t *testing.T) {
	soon := func(began time.Duration) { assert.Less(t, cputime.Used()-began, 15*time.Second) }
	const n = 80_000
	var properties, required, uses, results []string
	for i := range n {
		properties = append(properties, fmt.Sprintf(`"%06d":{"type":"string"}`, i))
		required = append(required, fmt.Sprintf(`"%06d"`, i))
		uses = append(uses, fmt.Sprintf(`{"type":"tool_use","id":"%06d","name":"t","input":{}}`, i))
		results = append(results, fmt.Sprintf(`{"type":"tool_result","toolUseId":"%06d","content":[]}`, i))
	}
	list := func(parts []string) string { return strings.Join(parts, ",") }

	began := cputime.Used()
	form, err := steps.Step{Params: []byte(`{"message":"m","requestedSchema":{"type":"object","properties":{` + list(properties) + `},"required":[` + list(required) + `]}}`)}.Form()
	soon(began)
	require.NoError(t, err)
	require.Len(t, form.Fields, n)
	assert.True(t, form.Fields[n-1].Required)

	began = cputime.Used()
	request, err := steps.Step{Params: []byte(`{"maxTokens":1,"messages":[{"role":"assistant","content":[` + list(uses) + `]},{"role":"user","content":[` + list(results) + `]}]}`)}.Sample()
	soon(began)
	require.NoError(t, err)
	require.NoError(t, request.Verify())
	soon(began)
}
