package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
)

// childEnv makes the test binary one of the processes of a test: a part of the
// example, or its client.
const childEnv = "TRIP_TEST_CHILD"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(childEnv) {
	case "part":
		main()
	case "client":
		err = clientProcess(context.Background(), os.Args[1:])
	default:
		// Most of the time tests wait for leases of servers that are dead. -parallel changes it.
		if err = flag.Set("test.parallel", "6"); err == nil {
			os.Exit(m.Run())
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
