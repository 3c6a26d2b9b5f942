package client_test

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
)

// BenchmarkStdio is a request to a process and its answer.
func BenchmarkStdio(b *testing.B) {
	self, err := os.Executable()
	require.NoError(b, err)
	c := client.New(&client.Stdio{Command: self, Env: append(os.Environ(), childMode+"=plain"), Stderr: new(bytes.Buffer)}, client.Options{Protocol: "saga"})
	defer c.Close()
	b.ReportAllocs()
	for b.Loop() {
		require.ErrorContains(b, reach(b.Context(), c), "no")
	}
}
