package interop

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/longtests"
)

// zeros can be read without end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// With a full disk, what needs the ledger is refused and can be sent again, and nothing is lost. Keys can be neither added nor
// spoiled.
func TestRunbookFullDisk(t *testing.T) {
	longtests.OnlyIfWanted(t, "waits for as long as a server waits for its ledger")
	t.Parallel()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("mounting a small disk needs root: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	s := newFleet(t, filepath.Join(disk, "ledger.db"))
	keys := filepath.Join(disk, "keys.json")
	require.NoError(t, os.Rename(filepath.Join(s.dir, "keys.json"), filepath.Join(s.dir, "elsewhere.json")))
	mustRun(t, "cp", filepath.Join(s.dir, "elsewhere.json"), keys)
	s.env = append(s.env, "RUNBOOK_KEYSET="+keys)
	a := s.serve()
	waits := s.call(a, "order")

	f, err := os.Create(filepath.Join(disk, "filler"))
	require.NoError(t, err)
	_, err = io.Copy(f, zeros{})
	require.True(t, errors.Is(err, syscall.ENOSPC), err)
	require.NoError(t, f.Close())
	const full = "cannot be written down at present: send the same request again"
	said, code := s.run("call", "order", "--server", a.url)
	assert.NotZero(t, code)
	assert.Contains(t, said, full)
	said, code = s.answer(a, waits)
	assert.NotZero(t, code)
	assert.Contains(t, said, full)
	assert.Regexp(t, `"status":"degraded".*ledgerDownSince`, a.get("/readyz?ledger=required"))
	a.says("the disk is full")
	said, code = s.run("ledger", "check")
	assert.NotZero(t, code)
	assert.Contains(t, said, "the disk is full")
	assert.Len(t, s.waiting(), 1, "it can be read")
	said, code = s.run("keys", "add")
	assert.NotZero(t, code)
	assert.Contains(t, said, "no space left")
	s.keys("list")

	require.NoError(t, os.Remove(filepath.Join(disk, "filler")))
	a.eventually(func() bool { return strings.Contains(a.get("/readyz"), `"ready"`) }, "it does not recover")
	s.done(s.answer(a, waits))
	assert.Equal(t, []string{"book", "pay"}, s.kinds(), "nothing was begun that could not be recorded")
	assert.Empty(t, s.waiting())
}
