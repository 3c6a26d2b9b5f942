package interop

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/porttest"
	"github.com/mcpsaga/mcpsaga/internal/store/intercept"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
	"github.com/mcpsaga/mcpsaga/steps"
)

// shopChild is the argument with which the test's binary is a server whose tool waits for a payment.
const shopChild = "serve-shop"

type payment struct {
	Amount int `json:"amount"`
}

var (
	approved = &steps.Form[none]{ID: "approved", Message: "Buy a chair?", By: steps.By{"fay"}, Within: time.Hour}
	paid     = &steps.Event[payment]{ID: "paid", Message: "Waiting for the payment.", Within: time.Hour}
)

// shop orders something, has another person agree, has a provider ask for the money, and waits for that. All keep what
// they are told in files of a directory, under its key.
func shop(dir string) saga.Definition {
	keep := func(kind string) *saga.Effect[string, string] {
		return &saga.Effect[string, string]{
			Name: kind,
			Do: func(_ context.Context, key saga.Key, what string) (string, error) {
				return "", os.WriteFile(filepath.Join(dir, kind+"-"+string(key)), []byte(what), 0o600)
			},
			Undo: func(_ context.Context, p saga.Performed[string, string]) error {
				if err := os.Remove(filepath.Join(dir, kind+"-"+string(p.Key))); err != nil && !os.IsNotExist(err) {
					return err
				}
				return nil
			},
		}
	}
	order, ask, pay := keep("order"), keep("ask"), keep("pay")
	return saga.Flow[none, string]{
		Info: saga.Info{Name: "buy", Asks: []steps.Question{approved, paid}, Effects: []saga.Declared{order, ask, pay}, Tasks: saga.Tasks{Mode: saga.TasksOptional}},
		Run: func(r *saga.Run, _ none) (string, error) {
			if _, err := saga.Do(r, order, "a chair"); err != nil {
				return "", err
			}
			page, err := saga.Page(r, approved)
			if err != nil {
				return "", err
			}
			if _, err := saga.Do(r, ask, page); err != nil {
				return "", err
			}
			if _, err := saga.Ask(r, approved); err != nil {
				return "", err
			}
			who, _ := approved.AnsweredBy(r)
			handle, err := saga.Handle(r, paid)
			if err != nil {
				return "", err
			}
			if _, err := saga.Do(r, pay, handle); err != nil {
				return "", err
			}
			got, err := saga.Ask(r, paid)
			return fmt.Sprintf("paid %d, says %s", got.Amount, who), err
		},
	}
}

// serveShop serves it until the process kills itself, before or after a call of the ledger.
func serveShop(args []string) error {
	flags := flag.NewFlagSet("shop", flag.ContinueOnError)
	addr, keyFile, file := flags.String("addr", "", ""), flags.String("keys", "", ""), flags.String("ledger", "", "")
	dir, dies, after := flags.String("dir", "", ""), flags.Int64("dies", 0, ""), flags.Bool("after", false, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	keys, err := keyset(*keyFile)
	if err != nil {
		return err
	}
	store, err := openLedger(*file)
	if err != nil {
		return err
	}
	var writes atomic.Int64
	kill := func(now bool) {
		if now {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	dying := &intercept.Store{Store: store, Around: func(_ context.Context, c intercept.Call, next func() error) error {
		n := int64(0)
		if c.Writes() {
			n = writes.Add(1)
		}
		kill(n > 0 && n == *dies && !*after)
		err := next()
		kill(n > 0 && n == *dies && *after)
		return err
	}}
	s, err := server.New(server.Options{
		Tools: []saga.Definition{shop(*dir)}, Keys: keys, Ledger: dying, Lease: time.Second, TurnTimeout: 8 * time.Second, Logger: slog.New(slog.DiscardHandler),
		Authenticate: func(r *http.Request) (saga.Caller, error) {
			return saga.Caller{Subject: cmp.Or(r.Header.Get("User"), "ann")}, nil
		},
		Questions: server.Questions{PageURL: "http://127.0.0.1/ask"},
	})
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/mcp", s.Handler())
	mux.Handle("/ask/", s.Handler())
	mux.Handle("/events/", http.StripPrefix("/events/", s.EventHandler()))
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s/mcp\n", l.Addr())
	return http.Serve(l, mux)
}

// shops are three servers of one ledger.
type shops struct {
	t   *testing.T
	dir string
	all []*process
}

func newShops(t *testing.T, dies int, after bool) *shops {
	dir := t.TempDir()
	first := newProcess(t)
	s := &shops{t: t, dir: dir}
	for i := range 3 {
		args := []string{first.args[0], shopChild, "--keys", first.keys, "--ledger", filepath.Join(dir, "ledger.db"), "--dir", dir}
		if i == 0 {
			args = append(args, "--dies", fmt.Sprint(dies), fmt.Sprintf("--after=%v", after))
		}
		p := &process{t: t, addr: porttest.Reserve(t), root: first.root, keys: first.keys, args: args}
		require.NoError(t, p.start())
		t.Cleanup(p.kill)
		s.all = append(s.all, p)
	}
	return s
}

// send sends a request to the i-th server. It returns nil if that is dead.
func (s *shops) send(i int, method string, params map[string]any) map[string]any {
	params["_meta"] = map[string]any{
		"io.modelcontextprotocol/protocolVersion":    "2026-07-28",
		"io.modelcontextprotocol/clientCapabilities": map[string]any{"extensions": map[string]any{}},
	}
	name, task := params["name"], params["taskId"]
	if task != nil || params["asTask"] != nil {
		delete(params, "asTask")
		params["_meta"].(map[string]any)["io.modelcontextprotocol/clientCapabilities"] = map[string]any{"extensions": map[string]any{"io.modelcontextprotocol/tasks": map[string]any{}}}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	require.NoError(s.t, err)
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.all[i].url(), bytes.NewReader(body))
	require.NoError(s.t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Mcp-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", method)
	for _, v := range []any{name, task} {
		if v, ok := v.(string); ok {
			req.Header.Set("Mcp-Name", v)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil
	}
	var m struct{ Result map[string]any }
	require.NoError(s.t, json.Unmarshal(raw, &m), "%s", raw)
	require.NotNil(s.t, m.Result, "%s", raw)
	return m.Result
}

// kept returns the texts of what an effect has kept.
func (s *shops) kept(kind string) (list []string) {
	names, err := filepath.Glob(filepath.Join(s.dir, kind+"-*"))
	require.NoError(s.t, err)
	for _, name := range names {
		if raw, err := os.ReadFile(name); err == nil && len(raw) > 0 {
			list = append(list, string(raw))
		}
	}
	return list
}

// agree has fay agree to all that is asked, and eve refused, at the first server that takes it, twice.
func (s *shops) agree() {
	for _, page := range s.kept("ask") {
		for i := range s.all {
			at := strings.Replace(page, "http://127.0.0.1/", strings.TrimSuffix(s.all[i].url(), "mcp"), 1)
			status, body := s.browse(at, "fay", nil)
			if status != http.StatusOK {
				continue
			}
			form := url.Values{"do": {"accept"}}
			for _, m := range hiddenInput.FindAllStringSubmatch(body, -1) {
				form.Set(m[1], m[2])
			}
			if status, _ := s.browse(at, "eve", form); status != 0 {
				assert.Equal(s.t, http.StatusForbidden, status)
			}
			first, _ := s.browse(at, "fay", form)
			if second, _ := s.browse(at, "fay", form); first == http.StatusSeeOther && second != 0 {
				assert.Equal(s.t, http.StatusConflict, second)
			}
		}
	}
}

var hiddenInput = regexp.MustCompile(`type="hidden" name="(\w+)" value="([^"]*)"`)

// browse opens a page as somebody, or sends its form. The status is 0 if the server is dead.
func (s *shops) browse(at, who string, form url.Values) (status int, body string) {
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, at, nil)
	if form != nil {
		req, err = http.NewRequestWithContext(s.t.Context(), http.MethodPost, at, strings.NewReader(form.Encode()))
	}
	require.NoError(s.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("User", who)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0, ""
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw)
}

// deliver pays for all that was asked for, at the first server that takes it.
func (s *shops) deliver() {
	for _, handle := range s.kept("pay") {
		for i := range s.all {
			resp, err := http.Post(strings.TrimSuffix(s.all[i].url(), "mcp")+"events/"+handle, "application/json", strings.NewReader(`{"amount":5}`))
			if err == nil {
				resp.Body.Close()
				if resp.StatusCode < 300 || resp.StatusCode == http.StatusGone {
					break
				}
			}
		}
	}
}

// TestEventsWhileServersDie kills a server before and after each of its writes while a tool waits for another person, and then for
// a payment. Another server goes on with it, as a task, or as a saga that its client drives. What comes twice, or late, changes nothing.
func TestEventsWhileServersDie(t *testing.T) {
	onlyIfWanted(t, "starts servers again and again")
	t.Parallel()
	var died atomic.Int64
	t.Cleanup(func() { assert.Greater(t, died.Load(), int64(20), "servers have died") })
	for _, asTask := range []bool{true, false} {
		for dies := range 24 {
			t.Run(fmt.Sprintf("task %v, write %d", asTask, dies), func(t *testing.T) {
				t.Parallel()
				s := newShops(t, dies/2+1, dies%2 == 1)
				call := func(i int, state string) map[string]any {
					params := map[string]any{"name": "buy", "arguments": map[string]any{}}
					if asTask {
						params["asTask"] = true
					}
					if state != "" {
						params["requestState"] = state
					}
					return s.send(i, "tools/call", params)
				}
				begun := call(0, "")
				if begun == nil {
					begun = call(1, "")
				}
				require.NotNil(t, begun)
				require.Eventually(t, func() bool { return len(s.kept("ask")) > 0 }, 30*time.Second, 20*time.Millisecond)
				s.agree()
				said := ""
				require.Eventually(t, func() bool {
					var end map[string]any
					if asTask {
						task := s.send(2, "tasks/get", map[string]any{"taskId": begun["taskId"]})
						end, _ = task["result"].(map[string]any)
						s.agree()
						s.deliver() // what another task is asked for that was begun in its place
					} else if end = call(2, fmt.Sprint(begun["requestState"])); end["resultType"] == "input_required" {
						begun = end
						s.agree()
						s.deliver()
						end = nil
					}
					if end != nil {
						raw, _ := json.Marshal(end["content"])
						said = string(raw)
					}
					return said != ""
				}, time.Minute, 50*time.Millisecond)
				assert.Contains(t, said, "paid 5, says fay")
				s.agree()
				s.deliver()
				for _, handle := range s.kept("pay") {
					resp, err := http.Post(strings.TrimSuffix(s.all[1].url(), "mcp")+"events/"+handle, "application/json", strings.NewReader(`{"amount":6}`))
					require.NoError(t, err)
					resp.Body.Close()
					assert.Equal(t, http.StatusConflict, resp.StatusCode)
				}
				assert.NotEmpty(t, s.kept("order"))
				resp, err := http.Get(s.all[0].url())
				if err == nil {
					resp.Body.Close()
				} else {
					died.Add(1)
				}
			})
		}
	}
}
