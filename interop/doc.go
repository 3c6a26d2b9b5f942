// Package interop holds no code but tests: what this module claims to work with,
// it is run with. The official conformance suite, the official TypeScript SDKs
// and the official Go SDK are used as they are published; the server is a process
// of its own: this test binary, with the tools that the suite calls and the examples.
//
// Those that need Node.js 22 look for it, and for the pinned packages, in
// testdata/node; .ci/node puts them there. Without them the tests skip, unless
// SAGA_REQUIRE_NODE is set to 1: then that is a failure. SAGA_CONFORMANCE_RUNS is
// how often the conformance suite runs in a row.
//
// Those that need a program of Debian's, a browser or a proxy, skip without it, unless
// SAGA_REQUIRE_DEBIAN is set to 1; .ci/debian installs all of them.
//
// SAGA_NIGHTLY=1 has every client play everything, also where others play the same, behind every
// load balancer and with every ledger.
//
// TestProtocols writes docs/protocols.md when run with -update.
package interop
