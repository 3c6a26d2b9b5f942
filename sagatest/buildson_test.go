package sagatest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/sagatest"
	"github.com/mcpsaga/mcpsaga/steps"
)

// migration changes a table after it has made a backup, and is undone by restoring it.
// buildsOn: it says so.
func migration(buildsOn bool) sagatest.Case {
	return sagatest.Case{
		New: func(testing.TB) sagatest.Subject {
			table := "old"
			backups, migrated, released := map[string]string{}, map[saga.Key]bool{}, map[saga.Key]bool{}
			backup := &saga.Effect[string, string]{
				Name: "backup",
				Do: func(_ context.Context, key saga.Key, _ string) (string, error) {
					if released[key] {
						return "", saga.Refused(errors.New("it was dropped"))
					}
					if backups[string(key)] == "" {
						backups[string(key)] = table
					}
					return string(key), nil
				},
				Undo: func(_ context.Context, p saga.Performed[string, string]) error {
					released[p.Key] = true
					delete(backups, string(p.Key))
					return nil
				},
			}
			migrate := &saga.Effect[string, string]{
				Name: "migrate",
				Do: func(_ context.Context, key saga.Key, _ string) (string, error) {
					if released[key] {
						return "", saga.Refused(errors.New("it was undone"))
					}
					table, migrated[key] = "new", true
					return "", nil
				},
				Undo: func(_ context.Context, p saga.Performed[string, string]) error {
					released[p.Key] = true
					if !migrated[p.Key] {
						return nil
					}
					if backups[p.In] == "" {
						return errors.New("there is no backup to restore")
					}
					table = backups[p.In]
					delete(migrated, p.Key)
					return nil
				},
			}
			if buildsOn {
				migrate.BuildsOn = []saga.Declared{backup}
			}
			return sagatest.Subject{
				World: func() any { return []any{table, len(backups)} },
				Tool: saga.Flow[struct{}, string]{
					Info: saga.Info{Name: "migration", Asks: []steps.Question{askCity, askSure}, Effects: []saga.Declared{backup, migrate}},
					Run: func(r *saga.Run, _ struct{}) (string, error) {
						if _, err := saga.Ask(r, askCity); err != nil {
							return "", err
						}
						from, err := saga.Do(r, backup, "")
						if err != nil {
							return "", err
						}
						if _, err := saga.Do(r, migrate, from); err != nil {
							return "", err
						}
						if _, err := saga.Ask(r, askSure); err != nil {
							return "", err
						}
						return "Migrated.", nil
					},
				},
			}
		},
		Script: []answer{accept("city", cityForm{"rome"}), accept("sure", sureForm{true})},
		Skip:   []string{"forks"}, // it has no end that checks
	}
}

func TestUndoThatBuildsOnAnother(t *testing.T) {
	sagatest.Sweep(t, migration(true))

	f := reported(t, func(t testing.TB) { sagatest.Sweep(t, migration(false)) })
	all := strings.Join(f.errors, "\n")
	for _, want := range []string{
		"broken rule: what was begun can be undone",
		"undo of migrate fails in turn 3 after a refusal, then the client cancels with the token of the report",
		"Undo failed for migrate: ", "there is no backup to restore", "name that one in BuildsOn",
	} {
		assert.Contains(t, all, want)
	}
}
