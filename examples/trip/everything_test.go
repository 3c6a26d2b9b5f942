package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/client"
)

// TestOneCommand starts the whole example, and books. What was begun is continued by another process
// that has the same directory.
func TestOneCommand(t *testing.T) {
	d := &driver{script: script{City: newCity(), Travellers: 1, Nights: 1, Answer: "leave"}}
	dir := t.TempDir()
	all := newProcess(t, dir, "all", "part", append(served, "--keyset", newKeyset(t, dir), "--ledger", "sqlite:"+filepath.Join(dir, "ledger.db"),
		"--dir", filepath.Join(dir, "missing", "yet"), "--approver", "boss")...)
	all.restart(t)
	d.url = all.address()
	require.ErrorIs(t, d.start(t.Context()), client.ErrPause)
	all.kill()
	all.restart(t)
	d.url, d.script.Answer = all.address(), "accept"
	require.NoError(t, d.comeBack(t.Context(), false))
	assert.Contains(t, d.result, `"paid":"EUR 61.00"`)
}

func TestMistakesOnTheCommandLine(t *testing.T) {
	for _, args := range [][]string{
		{"--db", "x", "museum"}, {"hotel"}, {"--db", filepath.Join(t.TempDir(), "x.db"), "--addr", "nowhere", "hotel"},
	} {
		assert.Error(t, runService(t.Context(), args), args)
	}
}
