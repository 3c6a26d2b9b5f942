package saga_test

import (
	"context"
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/content"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

// follow takes the turns of a saga for a client that comes back by itself: for the next part of
// a result, and when a sleep is over.
func follow(d saga.Definition, now time.Time) {
	tool, err := d.Compile()
	if err != nil {
		panic(err)
	}
	out, err := tool.Start(context.Background(), engine.Call{Now: now})
	for err == nil && out.Position != nil {
		if out.Yielded != nil {
			fmt.Println("part:", out.Yielded.Text())
		}
		if wake := out.Position.Wake; !wake.IsZero() {
			fmt.Println("sleeps until", wake.Format(time.DateTime))
			now = wake
		}
		out, err = tool.Resume(context.Background(), out.Position, engine.Call{Now: now})
	}
	if err != nil {
		fmt.Println("failed:", err)
		return
	}
	fmt.Println("result:", out.Result.Content.Text())
}

// A long list is given page by page. The client, or its model, decides whether it wants more.
func ExampleTurn_Yield() {
	type none struct{}
	type turn = saga.Turn[none, int]
	commits := []string{"Fix a typo", "Add pages", "Begin"}
	page := func(t *turn) (saga.Next, error) {
		text := commits[t.State]
		if t.State++; t.State == len(commits) {
			return t.Textf("%s", text)
		}
		return t.Yield("page", content.Textf("%s", text))
	}
	follow(saga.Machine[none, int]{
		Info:  saga.Info{Name: "history", Yields: true},
		Start: page, Steps: saga.Steps[none, int]{"page": page},
	}, time.Time{})
	// Output:
	// part: Fix a typo
	// part: Add pages
	// result: Begin
}

// A flow tells what it knows so far. When it runs again it does not tell it again.
func ExampleRun_Yield() {
	type none struct{}
	follow(saga.Flow[none, string]{
		Info: saga.Info{Name: "survey", Yields: true},
		Run: func(r *saga.Run, _ none) (string, error) {
			for _, city := range []string{"Oslo", "Rome"} {
				if err := r.Yield(content.Textf("%s: sunny", city)); err != nil {
					return "", err
				}
			}
			return "Two cities.", nil
		},
	}, time.Time{})
	// Output:
	// part: Oslo: sunny
	// part: Rome: sunny
	// result: Two cities.
}

// A reminder sleeps, and costs nothing meanwhile: the server may be restarted.
func ExampleRun_Sleep() {
	type none struct{}
	follow(saga.Flow[none, string]{
		Info: saga.Info{Name: "remind", Tasks: saga.Tasks{Mode: saga.TasksRequired}},
		Run: func(r *saga.Run, _ none) (string, error) {
			if err := r.Sleep(36 * time.Hour); err != nil {
				return "", err
			}
			return "It is " + r.Now().Format(time.DateTime) + ".", nil
		},
	}, time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC))
	// Output:
	// sleeps until 2026-11-21 21:00:00
	// result: It is 2026-11-21 21:00:00.
}

// A machine says which step function goes on.
func ExampleTurn_Until() {
	type none struct{}
	type turn = saga.Turn[none, none]
	follow(saga.Machine[none, none]{
		Info: saga.Info{Name: "new_year"},
		Start: func(t *turn) (saga.Next, error) {
			return t.Until(time.Date(t.Now().Year()+1, 1, 1, 0, 0, 0, 0, time.UTC), "greet")
		},
		Steps: saga.Steps[none, none]{"greet": func(t *turn) (saga.Next, error) { return t.Textf("A happy %d!", t.Now().Year()) }},
	}, time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC))
	// Output:
	// sleeps until 2027-01-01 00:00:00
	// result: A happy 2027!
}

// A backup may take hours. A client that knows of tasks is asked where to, as ever, and can
// leave then: the server does the rest, also if it is restarted meanwhile, and keeps the result
// for a day. To other clients the tool is what it is without Tasks.
func ExampleTasks() {
	type place struct {
		Bucket string `json:"bucket"`
	}
	type none struct{}
	where := &steps.Form[place]{ID: "where", Message: "Where shall the backup go?"}
	copied := &saga.Effect[string, int]{
		Name: "copy",
		Do:   func(_ context.Context, _ saga.Key, bucket string) (int, error) { return 42, nil },
		Undo: func(context.Context, saga.Performed[string, int]) error { return nil },
	}
	backup := saga.Flow[none, string]{
		Info: saga.Info{
			Name: "backup", Asks: []steps.Question{where}, Effects: []saga.Declared{copied},
			Tasks: saga.Tasks{Mode: saga.TasksOptional, After: "where", TTL: 6 * time.Hour, Keep: 24 * time.Hour},
		},
		Run: func(r *saga.Run, _ none) (string, error) {
			to, err := saga.Ask(r, where)
			if err != nil {
				return "", err
			}
			r.Progress(0, 1, "Copying") // the status message of the task
			files, err := saga.Do(r, copied, to.Bucket)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("%d files are in %s.", files, to.Bucket), nil
		},
	}
	s := begin(backup, steps.AllFeatures(), `{}`)
	s.accept("where", `{"bucket":"attic"}`)
	// Output:
	// asked: where
	// caller: 42 files are in attic.
}
