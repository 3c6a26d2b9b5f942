// Package check holds tests of what packaging has: each file is read by the strictest tool that reads it for users, and
// a release is made, and started. It is a module of its own, outside go.work, for what these tools bring.
package check
