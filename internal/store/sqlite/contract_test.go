package sqlite_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/sqlite"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Open {
		path := somePath(t)
		return func() store.Store {
			s, err := sqlite.OpenPatient(t.Context(), path, long)
			require.NoError(t, err)
			return s
		}
	})
}
