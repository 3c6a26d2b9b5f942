package client_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
)

// Who waits for a tool that sleeps is told until when.
func TestSleepsAreTold(t *testing.T) {
	t.Parallel()
	s := play(t, result(fmt.Sprintf(aPause, "50")), result(fmt.Sprintf(aPause, `"soon"`)), result(theEnd))
	var told []client.Progress
	began := time.Now()
	_, err := s.client(t).Call(t.Context(), "tool", nil, client.Handlers{OnProgress: func(p client.Progress) { told = append(told, p) }})
	require.NoError(t, err)
	require.Len(t, told, 1)
	assert.WithinRange(t, told[0].Until, began.Add(50*time.Millisecond), time.Now())
}
