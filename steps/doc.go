// Package steps holds what a saga can ask of a client: forms and links for the
// user, completions from the client's model, and the client's roots.
package steps
