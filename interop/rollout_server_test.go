package interop

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/mcpsaga/mcpsaga/cmd/program"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// rolloutChild is the argument with which the test's binary is a program of tools of its own, of some revision.
const rolloutChild = "rollout"

// serveRollout runs that program, which says on its standard output where it listens.
func serveRollout() {
	flags := flag.NewFlagSet("rollout", flag.ContinueOnError)
	revision := flags.Uint("revision", 1, "of the tools")
	dir := flags.String("books", "", "where effects are kept")
	at := os.Args[len(os.Args)-1]
	program.Main(program.Options{
		Server: server.Options{Name: "rollout"}, Flags: flags,
		Setup: func(_ context.Context, o *server.Options) error {
			for name, mode := range map[string]saga.TaskMode{"order": saga.TasksForbidden, "order_task": saga.TasksRequired} {
				o.Tools = append(o.Tools, rolloutOrder(name, mode, uint32(*revision), *dir))
			}
			go announce(at)
			return nil
		},
	})
}

// announce says where the process listens, once it does.
func announce(at string) {
	for {
		c, err := net.Dial("tcp", at)
		if err == nil {
			c.Close()
			fmt.Printf("http://%s/mcp\n", at)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

type sureForm struct {
	OK bool `json:"ok"`
}

// rolloutOrder books, asks, and pays. From revision 2 on it sends a receipt as well, and from revision 3 on it asks
// whether it is a present. Each reads the revisions before.
func rolloutOrder(name string, mode saga.TaskMode, revision uint32, dir string) saga.Definition {
	book, pay, mail := kept(dir, "book"), kept(dir, "pay"), kept(dir, "mail")
	sure := &steps.Form[sureForm]{ID: "sure", Message: "Shall I order it?"}
	present := &steps.Form[sureForm]{ID: "present", Message: "Is it a present?"}
	return saga.Flow[none, string]{
		Info: saga.Info{
			Name: name, Revision: revision, Tasks: saga.Tasks{Mode: mode},
			Asks: []steps.Question{sure, present}, Effects: []saga.Declared{book, pay, mail},
		},
		Oldest: 1,
		Run: func(r *saga.Run, _ none) (string, error) {
			if _, err := saga.Do(r, book, r.ID().String()); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, sure); err != nil {
				return "", err
			}
			if revision >= 3 {
				if _, err := saga.Ask(r, present); err != nil {
					return "", err
				}
			}
			if _, err := saga.Do(r, pay, r.ID().String()); err != nil {
				return "", err
			}
			if revision >= 2 {
				if _, err := saga.Do(r, mail, r.ID().String()); err != nil {
					return "", err
				}
			}
			return fmt.Sprintf("ordered by revision %d", revision), nil
		},
	}
}

// kept is an effect that keeps the saga's id in a file under its key. It takes a while, as other systems do.
func kept(dir, kind string) *saga.Effect[string, string] {
	return &saga.Effect[string, string]{
		Name: kind,
		Do: func(_ context.Context, key saga.Key, id string) (string, error) {
			time.Sleep(20 * time.Millisecond)
			return "", os.WriteFile(filepath.Join(dir, kind+"-"+string(key)), []byte(id), 0o600)
		},
		Undo: func(_ context.Context, p saga.Performed[string, string]) error {
			return os.WriteFile(filepath.Join(dir, "undone-"+kind+"-"+string(p.Key)), nil, 0o600)
		},
	}
}
