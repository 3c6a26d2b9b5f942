// Package outside has flows that reach to the world outside of an effect, and some
// that do so within one.
package outside

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type form struct {
	Sure bool `json:"sure"`
}

var (
	askSure = &steps.Form[form]{ID: "sure", Message: "Sure?"}
	read    = &saga.Effect[string, string]{Name: "read", Do: func(_ context.Context, _ saga.Key, path string) (string, error) {
		b, err := os.ReadFile(path) // an effect may
		return string(b), err
	}}
	write = &saga.Effect[string, string]{Name: "write", Do: save}
)

func save(_ context.Context, k saga.Key, path string) (string, error) {
	return path, os.WriteFile(path, []byte(path), 0o600)
}

func files(r *saga.Run) error {
	b, err := os.ReadFile("prices") // want `os.ReadFile reaches outside of the saga: the flow runs from its beginning in every turn, so this may find something else, or act again. Do it in an effect, whose result is recorded.`
	if err != nil {
		return err
	}
	f, _ := os.Open("prices")       // want `os.Open reaches outside`
	_, _ = f.Write(b)               // want `os.File.Write reaches outside`
	_ = f.Name()                    // it knows its name
	_, _ = filepath.Glob("*")       // want `filepath.Glob reaches outside`
	_ = filepath.Join("a", "b")     // only computes
	open := os.Open                 // want `os.Open reaches outside`
	_, _ = open("x")                // said where it was taken
	_ = errors.Is(err, os.ErrExist) // a variable
	_ = os.IsNotExist(err)          // only computes
	return r.AskAll(askSure)
}

func environment(r *saga.Run) error {
	if os.Getenv("STAGE") == "" && len(os.Args) > 1 { // want `os.Getenv reaches outside` `os.Args reaches outside`
		return r.AskAll(askSure)
	}
	_ = os.CopyFS("there", os.DirFS("here")) // want `os.CopyFS reaches outside`
	host, _ := os.Hostname()                 // want `os.Hostname reaches outside`
	return r.AskAll(askSure.With(steps.Message(host)))
}

// shop is what a tool works with.
type shop struct {
	db     *sql.DB
	client http.Client
}

func (s *shop) network(r *saga.Run) error {
	ctx := context.Background()
	rsp, err := http.Get("http://localhost/") // want `http.Get reaches outside`
	if err != nil {
		return err
	}
	rsp.Body.Close()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/", nil) // not sent yet
	_, _ = s.client.Do(req)                                                             // want `http.Client.Do reaches outside`
	_, _ = net.LookupHost("localhost")                                                  // want `net.LookupHost reaches outside`
	_, _ = net.ParseMAC("")
	_, _ = new(net.Dialer).DialContext(ctx, "tcp", "localhost:1") // want `net.Dialer.DialContext reaches outside`
	return r.AskAll(askSure)
}

func (s *shop) database(r *saga.Run) error {
	ctx := context.Background()
	row := s.db.QueryRowContext(ctx, "SELECT 1") // want `sql.DB.QueryRowContext reaches outside`
	var n int
	if err := row.Scan(&n); err != nil {
		return err
	}
	tx, _ := s.db.Begin()                   // want `sql.DB.Begin reaches outside`
	_, _ = tx.Exec("UPDATE x SET y = 1")    // want `sql.Tx.Exec reaches outside`
	_ = s.db.Stats()                        // of the process
	_ = exec.Command("ls").Run()            // want `exec.Cmd.Run reaches outside`
	if err := s.store(ctx, n); err != nil { // want `store uses sql.DB.ExecContext, which reaches outside of the saga`
		return err
	}
	return r.AskAll(askSure)
}

func (s *shop) store(ctx context.Context, n int) error { return s.execute(ctx, n) }

func (s *shop) execute(ctx context.Context, n int) error {
	_, err := s.db.ExecContext(ctx, "UPDATE x SET y = ?", n)
	return err
}

func withinFunctions(r *saga.Run) error {
	home := func() string { return os.Getenv("HOME") } // want `os.Getenv reaches outside`
	return r.AskAll(askSure.With(steps.Message(home())))
}

func asItShouldBe(r *saga.Run) error {
	price, err := saga.Do(r, read, "prices")
	if err != nil {
		return err
	}
	if err := r.AskAll(askSure); err != nil {
		return err
	}
	var b bytes.Buffer
	_, _ = b.WriteString(strings.ToUpper(price))
	slog.Info("asked", "host", os.Getenv("HOST")) // only for people
	_, err = saga.Do(r, write, b.String())
	return err
}

func effectsFunction(r *saga.Run) error {
	if _, err := save(context.Background(), "key", "x"); err != nil { // want `save uses os.WriteFile`
		return err
	}
	return r.AskAll(askSure)
}

func handler() http.Handler {
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { _, _ = os.ReadFile("x") })
}

func later(r *saga.Run) error {
	_ = handler() // what it returns is called by others
	return r.AskAll(askSure)
}

// once neither asks nor has effects.
var once = saga.Flow[form, string]{Info: saga.Info{Name: "once"}, Run: func(_ *saga.Run, _ form) (string, error) {
	b, err := os.ReadFile("prices")
	return string(b), err
}}

// acts asks nothing, but may run again before its effect is recorded.
var acts = saga.Flow[form, string]{Info: saga.Info{Name: "acts"}, Run: func(r *saga.Run, _ form) (string, error) {
	_, err := saga.DoAll(r, read, []string{os.Getenv("HOST")}) // want `os.Getenv reaches outside`
	return "", err
}}

// twice asks.
var twice = saga.Flow[form, string]{Info: saga.Info{Name: "twice", Asks: []steps.Question{askSure}}, Run: func(r *saga.Run, _ form) (string, error) {
	b, err := os.ReadFile("prices") // want `os.ReadFile reaches outside`
	if err != nil {
		return "", err
	}
	_, err = saga.Ask(r, askSure)
	return string(b), err
}}

// A machine's functions do not run again from the beginning.
var machine = saga.Machine[form, form]{Info: saga.Info{Name: "machine"}, Start: func(t *saga.Turn[form, form]) (saga.Next, error) {
	b, err := os.ReadFile("prices")
	if err != nil {
		return nil, err
	}
	return t.Textf("%s", b)
}}

func ignored(r *saga.Run) error {
	_ = os.Getenv("STAGE") //sagavet:ignore it is the same on every replica
	_ = os.Getenv("PHASE") //sagavet:ignore // want `os.Getenv reaches outside .* \(A //sagavet:ignore needs a reason.\)`
	return r.AskAll(askSure)
}
