package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	kept := []string{"--keyset", newKeyset(t, dir), "--ledger", "sqlite:" + filepath.Join(dir, "ledger.db")}
	all := newProcess(t, dir, "all", "part", slices.Concat(served, kept, []string{"--dir", filepath.Join(dir, "missing", "yet"), "--approver", "boss"})...)
	all.restart(t)
	d.url = all.address()
	require.ErrorIs(t, d.start(t.Context()), client.ErrPause)
	self, err := os.Executable()
	require.NoError(t, err)
	ledger := exec.CommandContext(t.Context(), self, append([]string{"ledger"}, kept...)...)
	ledger.Env = append(os.Environ(), childEnv+"=part")
	held, err := ledger.Output()
	require.NoError(t, err)
	assert.Contains(t, string(held), "hold-hotel, hold-flight, hold-money", "the audience is that of the program")
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
