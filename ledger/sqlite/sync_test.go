package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A program's store acknowledges what is on the disk, though those of other tests may be hastier.
func TestProgramsWaitForTheDisk(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"))
	require.NoError(t, err)
	defer s.Close()
	w := s.(*store).writer.st.conn
	for pragma, want := range map[string]string{"synchronous": "2", "journal_mode": "wal", "fullfsync": "1", "checkpoint_fullfsync": "1"} {
		got, err := w.ask("PRAGMA " + pragma)
		require.NoError(t, err)
		assert.Equal(t, want, got, pragma)
	}
}
