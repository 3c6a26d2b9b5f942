package sqlite_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/ledger/ledgertest"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
)

func TestContract(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t testing.TB) ledgertest.Harness {
		path := somePath(t)
		return ledgertest.Harness{Open: func() ledger.Store {
			s, err := sqlite.OpenPatient(t.Context(), path, long)
			require.NoError(t, err)
			return s
		}}
	})
}
