package saga_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// A user sees what is to be deleted, and a person agrees, not a model. What comes into the folder after that stays.
func Example_confirmDelete() {
	type folder struct {
		Folder string `json:"folder"`
	}
	type sureForm struct {
		Sure bool `json:"sure" title:"Delete them for good" default:"false"`
	}
	askSure := &steps.Form[sureForm]{ID: "sure", Message: "Shall I delete these files?", Consent: true}

	disk := []string{"old/a.txt", "old/b.txt", "new/c.txt"}
	list := &saga.Effect[string, []string]{
		Name: "list", ReadOnly: true,
		Do: func(_ context.Context, _ saga.Key, folder string) ([]string, error) {
			return slices.DeleteFunc(slices.Clone(disk), func(f string) bool { return !strings.HasPrefix(f, folder+"/") }), nil
		},
	}
	remove := &saga.Effect[[]string, int]{
		Name: "delete", Irreversible: true,
		Do: func(_ context.Context, _ saga.Key, files []string) (int, error) {
			disk = slices.DeleteFunc(disk, func(f string) bool { return slices.Contains(files, f) })
			return len(files), nil // also if they were gone already: it may be tried again
		},
	}
	clean := saga.Flow[folder, string]{
		Info: saga.Info{Name: "clean", Asks: []steps.Question{askSure}, Effects: []saga.Declared{list, remove}},
		Run: func(r *saga.Run, in folder) (string, error) {
			files, err := saga.Do(r, list, in.Folder)
			if err != nil || len(files) == 0 {
				return "There is nothing to delete.", err
			}
			sure, err := saga.Ask(r, askSure.With(steps.Message("Shall I delete "+strings.Join(files, " and ")+"?")))
			if err != nil {
				return "", err
			}
			if !sure.Sure {
				return "Nothing was deleted.", nil
			}
			n, err := saga.Do(r, remove, files) // what the user has seen, not what is there now
			return fmt.Sprintf("Deleted %d files.", n), err
		},
	}
	for _, reply := range []any{client.Decline(), client.Accept(fields{"sure": false}), client.Accept(fields{"sure": true})} {
		talk(clean, fields{"folder": "old"}, reply)
	}
	fmt.Println("left:", disk)
	// Output:
	// sure asks: Shall I delete old/a.txt and old/b.txt?
	// error: Stopped: "sure" was declined.
	// sure asks: Shall I delete old/a.txt and old/b.txt?
	// result: Nothing was deleted.
	// sure asks: Shall I delete old/a.txt and old/b.txt?
	// result: Deleted 2 files.
	// left: [new/c.txt]
}
