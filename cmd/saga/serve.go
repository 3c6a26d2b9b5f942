package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/keyfile"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/term"
	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/examples/complextool"
	"github.com/mcpsaga/mcpsaga/examples/releasenotes"
	"github.com/mcpsaga/mcpsaga/examples/reporeport"
	"github.com/mcpsaga/mcpsaga/examples/searchhistory"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// defaultAddr is where a server listens, and where the client commands look for one, by default.
const defaultAddr = "127.0.0.1:8080"

func serverFlags() []cli.Flag {
	return []cli.Flag{
		stringFlag("keyset", "the `FILE` with the keys that seal tokens (default: one of this user's own, created when missing)", ""),
		stringFlag("audience", "the `NAME` of this deployment; tokens of others are refused", ""),
		ledgerFlag("sqlite:, a file beside this user's own keyset; off with --keyset"),
		durationFlag("token-ttl", "how long a client may take to answer, per turn", tokens.DefaultTTL),
		stringFlag("repo", "the `DIR` that holds the git repositories that tools read", "."),
		stringFlag("log-level", "what to log: debug, info, warn or error", "info"),
		boolFlag("log-json", "log in JSON"),
	}
}

func (p *program) serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "serve the example tools over HTTP",
		Description: `Serves MCP at http://ADDR/mcp until it is interrupted. The process keeps nothing between two
turns: start as many as you like with the same --keyset and --audience, and stop any of them.
With a --ledger, which these servers must share, tools with effects take each turn once, and
what no client comes back to is undone. Users whose clients cannot ask them answer on pages at
http://ADDR/ask, or at /ask of the --public-url. What tools wait for (see saga events send) is
taken at http://ADDR/events/HANDLE, of who has the handle: where a proxy asks for
credentials, it must not do so there.

The keyset file is loaded again when it changes, and on SIGHUP; see saga keys --help.

Requests must be for this machine or a name of --allow-host, and web pages of this machine
or an origin of --allow-origin.

Examples:
   saga serve
   saga serve --addr 0.0.0.0:8080 --allow-host tools.example.com --keyset /etc/saga/keyset.json --audience prod
   SAGA_LEDGER=postgres://saga@db.example.com/saga PGPASSWORD=... saga serve --keyset /etc/saga/keyset.json
   saga serve --repo ~/src/project`,
		Flags: append([]cli.Flag{
			stringFlag("addr", "the `ADDRESS` to listen on", defaultAddr),
			listFlag("allow-host", "a host `NAME` that requests may be for, besides this machine (* for any)"),
			listFlag("allow-origin", "a web `ORIGIN` whose pages may use the server, such as https://app.example.com (* for any, with --allow-host)"),
			listFlag("trusted-proxy", "an `ADDRESS` or network of a proxy before the server, whose X-Forwarded-For tells callers apart, for the limits per caller"),
			stringFlag("public-url", "the `URL` at which users reach this server, such as https://tools.example.com: links to pages begin with it (default: that of --addr, if this machine alone may use the server)", ""),
			durationFlag("session-ttl", "how long a session of a client of MCP before 2026-07-28 lasts, however much it is used", 24*time.Hour),
			workersFlag(),
		}, serverFlags()...),
		Action: func(ctx context.Context, c *cli.Command) error {
			if ttl := c.Duration("session-ttl"); ttl <= 0 {
				return p.usage(c, "--session-ttl %s: a session has to last a while", ttl)
			}
			var listener net.Listener
			listen := func(o *server.Options) (err error) {
				listener, err = new(net.ListenConfig).Listen(ctx, "tcp", c.String("addr"))
				if err != nil {
					return fmt.Errorf("%w\nName another address, and name it when you call:\n  %s serve --addr 127.0.0.1:8081\n  %[2]s call --server http://127.0.0.1:8081 TOOL", err, p.self)
				}
				if o.Ledger != nil {
					o.EventPath = eventsPath
				}
				o.Questions.PageURL, err = p.pageURL(c, listener, o.Ledger != nil)
				return err
			}
			defer func() {
				if listener != nil {
					_ = listener.Close()
				}
			}()
			return p.withServer(ctx, c, listen, func(ctx context.Context, s *server.Server, log *slog.Logger) error {
				defer runtime.KeepAlive(spareHeap())
				log.Info("serving", "url", "http://"+listener.Addr().String()+server.Endpoint,
					"allow-host", c.StringSlice("allow-host"), "allow-origin", c.StringSlice("allow-origin"), "trusted-proxy", c.StringSlice("trusted-proxy"))
				if term.Is(p.stderr) {
					p.say("saga: call a tool from another terminal with: %s call --server http://%s release_notes\nsaga: stop with Ctrl-C; calls that wait for an answer continue when a server runs again", p.self, listener.Addr())
				}
				return s.Serve(ctx, listener)
			})
		},
	}
}

// pagesPath is where users answer what their clients cannot ask.
const pagesPath = "/ask"

// eventsPath is where events are delivered.
const eventsPath = "/events"

// pageURL is where users reach the pages of the server; empty if it has none.
func (p *program) pageURL(c *cli.Command, l net.Listener, ledger bool) (string, error) {
	if base := c.String("public-url"); base != "" {
		if !ledger {
			return "", p.usage(c, "--public-url is for pages on which users answer, and those need a --ledger")
		}
		return strings.TrimSuffix(base, "/") + pagesPath, nil
	}
	addr, ok := l.Addr().(*net.TCPAddr)
	if !ledger || !ok || !addr.IP.IsLoopback() || len(c.StringSlice("allow-host")) > 0 { // a proxy may be before it
		return "", nil
	}
	return "http://" + addr.String() + pagesPath, nil
}

// spareHeap is memory that is never touched, so it takes no room, and that counts as used: the
// garbage collector, which comes when the heap has doubled, comes less often while the heap is
// small, and as ever when it is large. An operator who tunes the collector has no use for it.
func spareHeap() []byte {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	return make([]byte, 16<<20)
}

func (p *program) stdioCommand() *cli.Command {
	return &cli.Command{
		Name:  "stdio",
		Usage: "serve the example tools on standard input and output",
		Description: `Serves one client, one JSON message per line, until the input ends. Logs go to the
standard error.

Example, in a client's configuration:
   {"command": "saga", "args": ["stdio", "--repo", "/home/me/project"]}`,
		Flags: append([]cli.Flag{workersFlag()}, serverFlags()...),
		Action: func(ctx context.Context, c *cli.Command) error {
			return p.withServer(ctx, c, nil, func(ctx context.Context, s *server.Server, _ *slog.Logger) error {
				// A client that has disconnected must not end this process in the middle of
				// what it undoes.
				signal.Ignore(syscall.SIGPIPE)
				return s.ServeStdio(ctx, p.stdin, p.stdout)
			})
		},
	}
}

func workersFlag() cli.Flag {
	return intFlag("workers", "work on `N` tasks at once; 0 leaves tasks, and what clients have abandoned, to saga worker", 16)
}

func (p *program) workerCommand() *cli.Command {
	return &cli.Command{
		Name:  "worker",
		Usage: "work on tasks, without serving clients",
		Description: `Works on the tasks that servers with the same --ledger, --keyset and --audience have begun,
undoes what no client comes back to, and removes what is no longer needed, until it is
interrupted. Servers do this as well, unless --workers is 0. Start as many workers as you
like, and stop any of them. A ledger in a file must be there: start the first server before.
   saga worker --ledger postgres://saga@db.example.com/saga --keyset /etc/saga/keyset.json --workers 64`,
		Flags: append([]cli.Flag{workersFlag()}, serverFlags()...),
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Int("workers") < 1 {
				return p.usage(c, "--workers %d: a worker works on 1 task at once at least", c.Int("workers"))
			}
			if name, _ := ledgerOf(c); name == ledgerOff {
				return p.usage(c, "a worker needs the ledger of the servers that it works for: name it with --ledger")
			}
			if _, err := p.namedLedger(c); err != nil {
				return err
			}
			return p.withServer(ctx, c, nil, func(ctx context.Context, s *server.Server, log *slog.Logger) error {
				log.Info("working", "workers", c.Int("workers"))
				if err := s.Work(ctx); ctx.Err() == nil {
					return err
				}
				return nil // it was interrupted
			})
		},
	}
}

// withServer makes the server of serve, stdio and worker, and reloads the keyset when its file
// changes while run runs. change, if it is not nil, completes the options.
func (p *program) withServer(ctx context.Context, c *cli.Command, change func(*server.Options) error, run func(context.Context, *server.Server, *slog.Logger) error) error {
	if err := p.noArguments(c); err != nil {
		return err
	}
	log, err := p.logger(c)
	if err != nil {
		return err
	}
	if ttl := c.Duration("token-ttl"); ttl < time.Second {
		return p.usage(c, "--token-ttl %s: tokens have to last a second at least", ttl)
	}
	if n := c.Int("workers"); n < 0 {
		return p.usage(c, "--workers %d: 0 works on no task", n)
	}
	root := c.String("repo")
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		return p.usage(c, "--repo %s is not a directory", root)
	}
	path, err := keysetPath(c)
	if err != nil {
		return failed(err)
	}
	keys, err := p.loadKeys(c, path)
	if err != nil {
		return failed(err)
	}
	var callerKey func(*http.Request) string
	if proxies := c.StringSlice("trusted-proxy"); len(proxies) > 0 {
		if callerKey, err = server.ForwardedKey(proxies...); err != nil {
			return p.usage(c, "--trusted-proxy: %s", strings.TrimPrefix(err.Error(), "server: "))
		}
	}
	store, err := p.openLedger(ctx, c, log)
	if err != nil {
		return err
	}
	defer closeStore(store)
	options := server.Options{
		Tools:          []saga.Definition{complextool.Tool, releasenotes.New(root), reporeport.New(root), searchhistory.New(root)},
		Keys:           keys,
		Audience:       c.String("audience"),
		TokenTTL:       c.Duration("token-ttl"),
		SessionTTL:     c.Duration("session-ttl"),
		AllowedHosts:   c.StringSlice("allow-host"),
		AllowedOrigins: c.StringSlice("allow-origin"),
		CallerKey:      callerKey,
		Name:           "saga",
		Logger:         log,
		Ledger:         store,
		Workers:        cmp.Or(c.Int("workers"), -1), // 0 would be its default
	}
	if change != nil {
		if err := change(&options); err != nil {
			return failed(err)
		}
	}
	s, err := server.New(options)
	if err != nil {
		if text := inFlags.Replace(err.Error()); text != err.Error() {
			return p.usage(c, "%s", text)
		}
		return failed(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(ctx)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	watcher := keyfile.Watcher{Path: path, Now: hangup, Interval: p.lookAtKeys, Set: s.SetKeys, Failed: s.KeysFailed, Log: log}
	var wait sync.WaitGroup
	wait.Go(func() { watcher.Run(ctx) })
	defer wait.Wait()
	defer cancel()
	return failed(run(ctx, s, log))
}

// inFlags names options of package server as this program has them.
var inFlags = strings.NewReplacer(
	"server: Options.Questions.PageURL ", "--public-url ", "server: AllowedHosts has ", "--allow-host ", "server: AllowedOrigins has ", "--allow-origin ",
	"server: AllowedOrigins ", "--allow-origin ", "AllowedHosts, or set Authenticate", "--allow-host",
)

func (p *program) logger(c *cli.Command) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		return nil, p.usage(c, "--log-level is debug, info, warn or error, not %q", c.String("log-level"))
	}
	options := &slog.HandlerOptions{Level: level}
	if c.Bool("log-json") {
		return slog.New(slog.NewJSONHandler(p.stderr, options)), nil
	}
	return slog.New(slog.NewTextHandler(p.stderr, options)), nil
}

// keysetPath is the file of --keyset, or this user's own.
func keysetPath(c *cli.Command) (string, error) {
	if path := c.String("keyset"); path != "" {
		return path, nil
	}
	return keyfile.Default()
}

// loadKeys loads the keyset. One that was asked for by name must exist: to create
// it would hide a typing mistake, and split a deployment in two.
func (p *program) loadKeys(c *cli.Command, path string) (*codec.Keyset, error) {
	if c.String("keyset") != "" {
		keys, err := codec.LoadKeyset(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w\ncreate it with: %s keys new --keyset %s", err, p.self, quote(path))
		}
		return keys, err
	}
	keys, created, err := keyfile.LoadOrCreate(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("there is no place for a keyset of your own: %w\nname one with --keyset; %s keys new makes it", err, p.self)
	}
	if created {
		p.say("saga: created a keyset for you at %s (mode 0600). Other replicas need a copy of it.", path)
	}
	return keys, err
}
