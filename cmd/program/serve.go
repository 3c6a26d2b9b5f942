package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/cmd/program/internal/keyfile"
	"github.com/mcpsaga/mcpsaga/cmd/program/internal/term"
	"github.com/mcpsaga/mcpsaga/ledger"
	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/server"
)

// defaultAddr is where a server listens, and where the client commands look for one, by default.
const defaultAddr = "127.0.0.1:8080"

// serverFlags are the flags of a command that makes a server, behind those of its own.
func (p *program) serverFlags(own ...cli.Flag) []cli.Flag {
	return slices.Concat(own, []cli.Flag{
		p.stringFlag("keyset", "the `FILE` with the keys that seal tokens, or env:VARIABLE (default: one of this user's own, created when missing)", ""),
		p.kmsFlag(),
		into(&p.server.Audience, p.stringFlag("audience", "the `NAME` of this deployment; tokens of others are refused", "")),
		p.ledgerFlag("sqlite:, a file beside this user's own keyset; off with --keyset"),
		p.stringFlag("log-level", "what to log: debug, info, warn or error", "info"),
		p.boolFlag("log-json", "log in JSON"),
		into(&p.server.Skills, p.boolFlag("skills", "offer a manual of each tool that asks or acts, as an Agent Skill and as a resource")),
		p.stringFlag("metrics", "the `ADDRESS`, such as :9464, at whose "+metricsPath+" Prometheus reads metrics; of this machine alone unless it names a host", ""),
		&cli.BoolFlag{Name: "print-config", Usage: "print what is set, and where, as a file for --config, and end"},
		p.stringFlag("audit", "write who did what to this `FILE`, a JSON object on each line (- for the standard output)", ""),
		p.auditKeyFlag(),
	}, p.ownFlags(), p.limits())
}

func (p *program) serveCommand() *cli.Command {
	o := &p.server
	return &cli.Command{
		Name:  "serve",
		Usage: "serve the tools over HTTP",
		Description: `Serves MCP at http://ADDR/mcp until it is interrupted. The process keeps nothing between two
turns: start as many as you like with the same --keyset and --audience, and stop any of them.
With a --ledger, which these servers must share, tools with effects take each turn once, and
what no client comes back to is undone. Users whose clients cannot ask them answer on pages at
http://ADDR/ask, or at /ask of the --public-url. What tools wait for (see {program} events send) is
taken at http://ADDR/events/HANDLE, of who has the handle: where a proxy asks for
credentials, it must not do so there.

The keyset file is loaded again when it changes, and on SIGHUP; see {program} keys --help. So is
--log-level in the file of --config, on SIGHUP.

Requests must be for this machine or a name of --allow-host, and web pages of this machine
or an origin of --allow-origin.

Examples:
   {program} serve
   {program} serve --addr 0.0.0.0:8080 --allow-host tools.example.com --keyset /etc/{program}/keyset.json --audience prod
   {PROGRAM}_LEDGER=postgres://{program}@db.example.com/{program} PGPASSWORD=... {program} serve --keyset /etc/{program}/keyset.json`,
		Flags: p.serverFlags(append([]cli.Flag{
			p.stringFlag("addr", "the `ADDRESS` to listen on", defaultAddr),
			into(&o.AllowedHosts, p.listFlag("allow-host", "a host `NAME` that requests may be for, besides this machine (* for any)")),
			into(&o.AllowedOrigins, p.listFlag("allow-origin", "a web `ORIGIN` whose pages may use the server, such as https://app.example.com (* for any, with --allow-host)")),
			p.listFlag("trusted-proxy", "an `ADDRESS` or network of a proxy before the server, whose X-Forwarded-For tells callers apart, for the limits per caller"),
			p.stringFlag("public-url", "the `URL` at which users reach this server, such as https://tools.example.com: links to pages begin with it (default: that of --addr, if this machine alone may use the server)", ""),
		}, slices.Concat(p.limitsOfHTTP(), p.authFlags())...)...),
		Action: func(ctx context.Context, c *cli.Command) error {
			var listener net.Listener
			var who *authorization
			listen := func() (err error) {
				listener, err = new(net.ListenConfig).Listen(ctx, "tcp", c.String("addr"))
				if err != nil {
					return fmt.Errorf("%w\nName another address, and name it when you call:\n  %s serve --addr 127.0.0.1:8081\n  %[2]s call --server http://127.0.0.1:8081 %[3]s", err, p.self, p.example)
				}
				if o.Ledger != nil {
					o.EventPath = cmp.Or(o.EventPath, eventsPath)
				}
				if o.Questions.PageURL, err = p.pageURL(c, o.Ledger, listener); err == nil {
					who, err = p.authorize(c, listener)
				}
				return err
			}
			defer func() {
				if listener != nil {
					_ = listener.Close()
				}
			}()
			return p.withServer(ctx, c, listen, func(ctx context.Context, s *server.Server, log *slog.Logger) error {
				defer runtime.KeepAlive(spareHeap())
				who.begin(ctx)
				log.Info("serving", "url", "http://"+listener.Addr().String()+server.Endpoint,
					"allow-host", o.AllowedHosts, "allow-origin", o.AllowedOrigins, "trusted-proxy", c.StringSlice("trusted-proxy"))
				if term.Is(p.stderr) {
					p.remark("call a tool from another terminal with: %s call --server http://%s %s", p.self, listener.Addr(), exampleOf(&p.options, o.Tools))
					p.remark("stop with Ctrl-C; calls that wait for an answer continue when a server runs again")
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
func (p *program) pageURL(c *cli.Command, store ledger.Store, l net.Listener) (string, error) {
	given := p.server.Questions.PageURL
	if base := c.String("public-url"); base != "" {
		given = strings.TrimSuffix(base, "/") + pagesPath
	}
	if given != "" {
		if store == nil {
			return "", p.usage(c, "--public-url is for pages on which users answer, and those need a --ledger")
		}
		return given, nil
	}
	if at := p.ownURL(l); at != "" && store != nil {
		return at + pagesPath, nil
	}
	return "", nil
}

// ownURL is where users reach the server if only those of this machine may; empty otherwise.
func (p *program) ownURL(l net.Listener) string {
	if l == nil { // it has no address
		return ""
	}
	if addr, ok := l.Addr().(*net.TCPAddr); ok && addr.IP.IsLoopback() && len(p.server.AllowedHosts) == 0 { // else a proxy may be before it
		return "http://" + addr.String()
	}
	return ""
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
		Usage: "serve the tools on standard input and output",
		Description: `Serves one client, one JSON message per line, until the input ends. Logs go to the
standard error.

Example, in a client's configuration:
   {"command": "{program}", "args": ["stdio"]}`,
		Flags: p.serverFlags(),
		Action: func(ctx context.Context, c *cli.Command) error {
			return p.withServer(ctx, c, nil, func(ctx context.Context, s *server.Server, _ *slog.Logger) error {
				return s.ServeStdio(ctx, p.stdin, p.stdout)
			})
		},
	}
}

func (p *program) workerCommand() *cli.Command {
	return &cli.Command{
		Name:  "worker",
		Usage: "work on tasks, without serving clients",
		Description: `Works on the tasks that servers with the same --ledger, --keyset and --audience have begun,
undoes what no client comes back to, and removes what is no longer needed, until it is
interrupted. Servers do this as well, unless --workers is 0. Start as many workers as you
like, and stop any of them. A ledger in a file must be there: start the first server before.
   {program} worker --ledger postgres://{program}@db.example.com/{program} --keyset /etc/{program}/keyset.json --workers 64`,
		Flags: p.serverFlags(p.stringFlag("public-url", "the `URL` at which users reach the servers; tools that ask others than their callers need it", "")),
		Action: func(ctx context.Context, c *cli.Command) error {
			if c.Int("workers") < 1 {
				return p.usage(c, "--workers %d: a worker works on 1 task at once at least", c.Int("workers"))
			}
			if _, err := p.namedLedger(c); err != nil {
				return err
			}
			pages := func() (err error) {
				// A worker has no callers, but the tools of servers that know theirs.
				p.server.Authenticate = func(*http.Request) (saga.Caller, error) { return saga.Caller{}, errors.New("a worker has no callers") }
				p.server.Questions.PageURL, err = p.pageURL(c, p.server.Ledger, nil)
				return err
			}
			return p.withServer(ctx, c, pages, func(ctx context.Context, s *server.Server, log *slog.Logger) error {
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
func (p *program) withServer(ctx context.Context, c *cli.Command, change func() error, run func(context.Context, *server.Server, *slog.Logger) error) error {
	if c.Bool("print-config") {
		if err := p.tryConfig(ctx, c); err != nil {
			return err
		}
		return failed(p.printConfig(c))
	}
	// A client, or a reader of the audit or the log, that has gone must not end this process in the middle of what it does: writing
	// then fails. To ignore the signal would have what tools start ignore it, too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	hangup, again := make(chan os.Signal, 1), make(chan os.Signal, 1) // from the start on, as that may wait for the ledger
	for _, hears := range []chan os.Signal{hangup, again} {
		signal.Notify(hears, syscall.SIGHUP)
		defer signal.Stop(hears)
	}
	keyset, err := p.completeOptions(ctx, c)
	if err != nil {
		return err
	}
	o := &p.server
	o.Workers, o.LedgerLimit, o.UndoGrace = cmp.Or(o.Workers, -1), cmp.Or(o.LedgerLimit, -1), cmp.Or(o.UndoGrace, -1) // 0 would be the default
	if o.Keys, err = p.loadKeys(c, keyset); err != nil {
		return failed(err)
	}
	if o.Audience, err = p.audienceOf(c); err != nil {
		return failed(err)
	}
	if o.Ledger, err = p.openLedger(ctx, c, o.Logger); err != nil {
		return err
	}
	if o.Ledger != nil {
		defer o.Ledger.Close() // what it has acknowledged is there
	}
	if p.options.Setup != nil {
		if err := p.options.Setup(ctx, o); err != nil {
			return failed(err)
		}
	}
	if change != nil {
		if err := change(); err != nil {
			return failed(err)
		}
	}
	closeAudit, err := p.openAudit(c)
	defer closeAudit()
	if err != nil {
		return err
	}
	stopExport, err := p.observe(ctx, c)
	if err != nil {
		return failed(err)
	}
	defer stopExport()
	s, err := p.newServer(c, *o)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(ctx)
	watcher := keyfile.OfKeyset(keyset.KeysetFile, o.Keys)
	watcher.Now, watcher.Interval, watcher.Set, watcher.Failed, watcher.Log = hangup, p.lookAtKeys, s.SetKeys, s.KeysFailed, o.Logger
	var wait sync.WaitGroup
	if p.config.path != "" {
		wait.Go(func() { p.reload(ctx, c, again, o.Logger) })
	}
	wait.Go(func() {
		if keyset.variable != "" {
			o.Logger.InfoContext(ctx, "the keyset is in the environment, so changes of it are not noticed", "variable", keyset.variable)
			return
		}
		watcher.Run(ctx)
	})
	defer wait.Wait()
	defer cancel()
	return failed(run(ctx, s, o.Logger))
}

// completeOptions completes the options of a server by what flags say, but for what has to be opened, and returns where the keyset is.
func (p *program) completeOptions(ctx context.Context, c *cli.Command) (keyset keysetSource, err error) {
	o := &p.server
	if o.Keys != nil || o.Ledger != nil {
		return keyset, failed(errors.New("Options.Server has Keys or a Ledger: leave them out, and name the file of the keys by --keyset and the ledger by --ledger"))
	}
	if o.Logger == nil {
		if o.Logger, err = p.logger(c); err != nil {
			return keyset, err
		}
	}
	if keyset, err = p.keyset(ctx, c); err != nil {
		return keyset, err
	}
	o.CallerKey, err = p.callerKey(c)
	return keyset, err
}

// callerKey tells callers apart as --trusted-proxy says, or as the options do.
func (p *program) callerKey(c *cli.Command) (key func(*http.Request) string, err error) {
	proxies := c.StringSlice("trusted-proxy")
	if len(proxies) == 0 {
		return p.server.CallerKey, nil
	}
	if key, err = server.ForwardedKey(proxies...); err != nil {
		return nil, p.usage(c, "--trusted-proxy: %s", strings.TrimPrefix(err.Error(), "server: "))
	}
	return key, nil
}

// newServer makes a server, and names flags where package server refuses options.
func (p *program) newServer(c *cli.Command, o server.Options) (*server.Server, error) {
	s, err := server.New(o)
	if err == nil {
		return s, nil
	}
	if text := inFlags.Replace(err.Error()); text != err.Error() {
		return nil, p.usage(c, "%s", text)
	}
	return nil, failed(err)
}

// inFlags names options of package server as this program has them.
var inFlags = strings.NewReplacer(
	"server: Options.Questions.PageURL ", "--public-url ", "server: AllowedHosts has ", "--allow-host ", "server: AllowedOrigins has ", "--allow-origin ",
	"server: AllowedOrigins ", "--allow-origin ", "server: Options.ToolRates ", "--tool-rate ", "AllowedHosts, or set Authenticate", "--allow-host",
	"Options.Questions.PageURL, where they answer, and Options.Authenticate, which knows them", "the --public-url at which they answer, and --auth-… of serve to know them",
)

func (p *program) logger(c *cli.Command) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		return nil, p.usage(c, "--log-level is debug, info, warn or error, not %q", c.String("log-level"))
	}
	p.level.Set(level)
	options := &slog.HandlerOptions{Level: &p.level}
	if c.Bool("log-json") {
		return slog.New(slog.NewJSONHandler(p.stderr, options)), nil
	}
	return slog.New(slog.NewTextHandler(p.stderr, options)), nil
}
