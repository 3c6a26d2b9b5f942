package sqlite_test

import (
	"database/sql"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver "sqlite", to look into databases without the package

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
	"github.com/mcpsaga/mcpsaga/ledger/sqlite"
)

// All that a store has to do it does, and by statements none of which looks at more records than it needs.
func TestContract(t *testing.T) {
	var mu sync.Mutex
	queries := map[string]bool{}
	t.Run("store", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) storetest.Open {
			path := somePath(t)
			return func() store.Store {
				s, err := sqlite.OpenHeard(t.Context(), path, func(query string) {
					mu.Lock()
					defer mu.Unlock()
					queries[query] = true
				})
				require.NoError(t, err)
				return s
			}
		})
	})
	path := somePath(t)
	opened(t, path)
	searches := 0
	for q := range queries {
		steps := plan(t, path, q)
		for _, step := range steps {
			if regexp.MustCompile(`\b(r|s|records|states|items|ledger)\b`).MatchString(step) {
				searches++
				assert.Regexp(t, "^SEARCH .* USING ", step, q)
			}
			assert.NotContains(t, step, "TEMP B-TREE", q)
			if strings.HasPrefix(q, "SELECT due") || strings.HasPrefix(q, "SELECT count") {
				assert.NotContains(t, step, "USING INDEX", "answered from the index alone: %s", q)
			}
		}
	}
	assert.Greater(t, searches, 20)
}

// plan is how SQLite executes a statement.
func plan(t testing.TB, path, query string) (steps []string) {
	t.Helper()
	if regexp.MustCompile("sqlite_schema|^(BEGIN|COMMIT|ROLLBACK|PRAGMA)").MatchString(query) {
		return nil
	}
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	rows, err := db.Query("EXPLAIN QUERY PLAN "+query, make([]any, strings.Count(query, "?"))...)
	require.NoError(t, err, query)
	for rows.Next() {
		var id, parent, unused int
		var step string
		require.NoError(t, rows.Scan(&id, &parent, &unused, &step))
		steps = append(steps, step)
	}
	require.NoError(t, rows.Err())
	return steps
}

// look looks into a database without the package.
func look(t testing.TB, path, query string) (s string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	if err := db.QueryRow(query).Scan(&s); err != sql.ErrNoRows {
		require.NoError(t, err, query)
	}
	return s
}
