// Package interop holds no code but tests: what this module claims to work with,
// it is run with. The official conformance suite, the official TypeScript SDKs
// and the official Go SDK are used as they are published; the server is a process
// of its own: this test binary, with the tools that the suite calls and the examples.
//
// All of it takes minutes, so most tests skip unless they are asked for, by SAGA_LONG=1
// (see internal/longtests): those that last long, and those that use other people's programs, but
// for one client.
//
// Those that need Node.js 22 look for it, and for the pinned packages, in
// testdata/node; .ci/node puts them there. Without them the tests skip, unless
// SAGA_REQUIRE_NODE is 1: then that is a failure. SAGA_CONFORMANCE_RUNS is
// how often the conformance suite runs in a row. SAGA_REQUIRE_DEBIAN is the same
// for a browser and the proxies; .ci/debian installs all of them.
//
// SAGA_NIGHTLY=1 has every client play everything, also where others play the same, behind every
// load balancer and with every ledger.
//
// TestProtocols writes docs/protocols.md when run with -update.
package interop
