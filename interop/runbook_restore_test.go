package interop

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/postgrestest"
)

// restorable is a ledger with the commands by which the runbook has it saved and restored.
var restorable = map[string]func(t *testing.T) (url string, save, restore func()){
	"PostgreSQL": func(t *testing.T) (string, func(), func()) {
		db := postgrestest.Shared(t)
		name, dump := fmt.Sprintf("restored%d", databases.Add(1)), filepath.Join(t.TempDir(), "ledger.dump")
		db.Exec("CREATE DATABASE " + name)
		as := func(args ...string) {
			mustRun(t, append([]string{args[0], "-h", db.Dir, "-U", "postgres"}, args[1:]...)...)
		}
		return db.URL("postgres", name), func() { as("pg_dump", "-Fc", "-f", dump, name) }, func() {
			as("dropdb", "--force", name)
			as("createdb", name)
			as("pg_restore", "-d", name, dump)
		}
	},
	"SQLite": func(t *testing.T) (string, func(), func()) {
		path := ledgers["SQLite"](t)
		save := func() {
			db, err := sql.Open("sqlite", path)
			require.NoError(t, err)
			defer db.Close()
			_, err = db.Exec("VACUUM INTO '" + path + ".copy'")
			require.NoError(t, err)
		}
		return path, save, func() {
			for _, beside := range []string{"-wal", "-shm"} {
				require.NoError(t, os.RemoveAll(path+beside))
			}
			require.NoError(t, os.Rename(path+".copy", path))
			require.NoError(t, os.Chmod(path, 0o600)) // or servers refuse it
		}
	},
}

func mustRun(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	require.NoError(t, err, "%v: %s", args, out)
}

// A ledger that is restored from a backup takes what has ended since for abandoned, and does not know what was begun since. With
// no workers, nothing is undone before its operator has closed what ended well.
func TestRunbookRestoredLedger(t *testing.T) {
	t.Parallel()
	for kind, prepare := range restorable {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			url, save, restore := prepare(t)
			s := newFleet(t, url)
			audit := filepath.Join(s.dir, "audit")
			a := s.serve("--audit", audit)
			ended, waits, task := s.call(a, "order"), s.call(a, "order"), s.detached(a, "order_task")
			save()
			replayed := s.saved(ended)
			s.done(s.answer(a, ended))
			yes := s.file("yes.json", `{"sure":{"ok":true}}`)
			s.ok("tasks", "answer", task, "--answers", yes)
			s.ok("tasks", "watch", task)
			later, laterTask := s.call(a, "order"), s.detached(a, "order_task")
			s.call(a, "order") // whose client does not come again
			require.Equal(t, 2, count(s.kinds(), "pay"))
			a.kill()
			restore()

			b := s.serve("--workers", "0", "--audit", audit)
			list := s.waiting()
			require.Len(t, list, 3, "those of the backup")
			written, err := os.ReadFile(audit)
			require.NoError(t, err)
			for _, w := range list {
				if ended := regexp.MustCompile(`"saga":"` + w.Saga + `".*"act":"resume".*"outcome":"done"`); ended.Match(written) {
					_, code := s.run("ledger", "close", w.Saga)
					require.NotZero(t, code, "it is to be confirmed")
					assert.Contains(t, s.ok("ledger", "close", "--yes", w.Saga), "what it did stays")
				}
			}
			assert.Len(t, s.waiting(), 1)
			replayed()
			said, code := s.answer(b, ended)
			assert.NotZero(t, code)
			assert.Contains(t, said, "The operator of the server has ended the saga. What it did stays.", "its client cannot have it taken again")

			s.done(s.answer(b, later))
			b.says("the ledger is older than a token")
			said, code = s.run("tasks", "watch", laterTask, "--server", b.url)
			assert.NotZero(t, code)
			assert.Contains(t, said, "does not know the task", "only the audit knows what it did")

			s.done(s.answer(b, waits))
			assert.Equal(t, 2+2, count(s.kinds(), "pay"))
			assert.Zero(t, count(s.kinds(), "undone-book"))
			assert.Empty(t, s.waiting())

			written, err = os.ReadFile(audit)
			require.NoError(t, err)
			left := map[string][]string{} // what sagas have done that have not ended
			for line := range bytes.Lines(written) {
				var w struct {
					Saga, Act, Outcome string
					Effects            []string
				}
				require.NoError(t, json.Unmarshal(line, &w), "%s", line)
				if left[w.Saga] = append(left[w.Saga], w.Effects...); w.Act != "effect" && w.Outcome == "done" {
					delete(left, w.Saga)
				}
			}
			maps.DeleteFunc(left, func(_ string, effects []string) bool { return len(effects) == 0 })
			assert.Len(t, left, 2, "of the task and the client that does not come, only the audit knows what they did")
			for _, effects := range left {
				assert.Equal(t, []string{"book"}, effects)
			}
		})
	}
}
