package client_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// childMode makes the test binary play a server on its standard input and output.
const childMode = "MCPSAGA_CLIENT_TEST_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		if mode == "features" {
			os.Exit(serveFeatures())
		}
		os.Exit(playServer(mode))
	}
	goleak.VerifyTestMain(m)
}
