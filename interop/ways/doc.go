// Package ways takes one tool to its end in each of the ways that clients have, with servers
// and workers that are killed at any moment. It has tests only.
package ways
