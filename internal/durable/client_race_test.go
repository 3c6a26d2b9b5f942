//go:build race

package durable_test

const modelRaces = true
