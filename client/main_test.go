package client_test

import (
	"flag"
	"os"
	"testing"

	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/internal/leaktest"
)

// childMode makes the test binary play a server on its standard input and output.
const childMode = "MCPSAGA_CLIENT_TEST_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childMode); mode != "" {
		switch mode {
		case "features":
			os.Exit(serve(features...))
		case "tools":
			os.Exit(serve(complextool.Tool, counter))
		}
		os.Exit(playServer(mode))
	}
	// Tests wait most of the time. -parallel changes it.
	if err := flag.Set("test.parallel", "24"); err != nil {
		panic(err)
	}
	leaktest.Main(m)
}
