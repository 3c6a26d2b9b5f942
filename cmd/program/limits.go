package program

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/internal/turns"
	"github.com/mcpsaga/mcpsaga/server"
)

// limits are the flags of what a server of any kind bounds. What they say is in force: zero, which options take for
// their own default, is refused, or means that there is none.
func (p *program) limits() []cli.Flag {
	o := &p.server
	return inCategory("Limits", []cli.Flag{
		atLeast(time.Second, into(&o.TokenTTL, p.durationFlag("token-ttl", "how long a client may take to answer, per turn", tokens.DefaultTTL))),
		atLeast(time.Millisecond, into(&o.TurnTimeout, p.durationFlag("turn-timeout", "how long one turn may work; undoing may take a minute more", time.Minute))),
		noneIsZero(into(&o.UndoGrace, p.durationFlag("undo-grace", "how long after it has expired a token is still good to have undone what was done; 0 is not at all", turns.DefaultUndoGrace))),
		atLeast(time.Second, into(&o.Lease, p.durationFlag("lease", "how long a turn is left to a server that shows no sign of life", 10*time.Second))),
		noneIsZero(into(&o.Workers, p.intFlag("workers", "work on `N` tasks at once; 0 leaves tasks, and what clients have abandoned, to {program} worker", 16))),
		noneIsZero(into(&o.LedgerLimit, p.intFlag("ledger-limit", "how much of each kind the ledger keeps at once for one caller; 0 is no limit", 100_000))),
		atLeast(1, into(&o.MaxBody, &cli.Int64Flag{Name: "max-body", Usage: "the largest message, in bytes", Value: 1 << 20, Sources: p.sources("max-body")})),
		p.rateFlag(),
		p.toolRateFlag(),
		atLeast(1, into(&o.MaxTurns, p.intFlag("max-turns", "how many turns that clients ask for are worked on at once; more wait for a second, and are refused then", 2048))),
		atLeast(1, into(&o.PageSize, p.intFlag("page-size", "how many entries a list has at once", 100))),
	})
}

// limitsOfHTTP are those of a server for many clients.
func (p *program) limitsOfHTTP() []cli.Flag {
	o := &p.server
	return inCategory("Limits", []cli.Flag{
		atLeast(time.Second, into(&o.SessionTTL, p.durationFlag("session-ttl", "how long a session of a client of MCP before 2026-07-28 lasts, however much it is used", 24*time.Hour))),
		atLeast(time.Second, into(&o.SessionIdle, p.durationFlag("session-idle", "how long the server remembers what an unused session has left in memory", 30*time.Minute))),
		atLeast(1, into(&o.MaxSessions, p.intFlag("max-sessions", "how many sessions may be in memory", 10_000))),
		atLeast(1, into(&o.MaxSessionsPerPrincipal, p.intFlag("max-sessions-per-principal", "how many of them one caller may have", 100))),
		atLeast(1, into(&o.MaxStreams, p.intFlag("max-streams", "how many subscriptions of clients of MCP 2026-07-28 may be open", 1024))),
		atLeast(1, into(&o.MaxStreamsPerPrincipal, p.intFlag("max-streams-per-principal", "how many of them one caller may have", 64))),
	})
}

func (p *program) rateFlag() cli.Flag {
	f := p.stringFlag("rate", "how many turns one caller may ask this process for, such as `600/m`: so many at once, and evenly as many again in each minute; 0 is any", p.server.CallerRate.String())
	f.Validator = func(text string) error { return p.server.CallerRate.UnmarshalText([]byte(text)) }
	return f
}

func (p *program) toolRateFlag() cli.Flag {
	f := p.listFlag("tool-rate", "the same for a tool, as `TOOL=RATE`")
	for _, tool := range slices.Sorted(maps.Keys(p.server.ToolRates)) {
		f.Value = append(f.Value, tool+"="+p.server.ToolRates[tool].String())
	}
	f.Validator = func(list []string) error {
		rates := make(map[string]server.Rate)
		for _, text := range list {
			tool, text, _ := strings.Cut(text, "=")
			var rate server.Rate
			if err := rate.UnmarshalText([]byte(text)); err != nil {
				return fmt.Errorf("of %q: %w", tool, err)
			}
			rates[tool] = rate
		}
		p.server.ToolRates = rates
		return nil
	}
	return f
}

func inCategory(name string, flags []cli.Flag) []cli.Flag {
	for _, f := range flags {
		f.(cli.CategorizableFlag).SetCategory(name)
	}
	return flags
}

// atLeast has a flag refuse less.
func atLeast[T cmp.Ordered, C any, V cli.ValueCreator[T, C]](least T, f *cli.FlagBase[T, C, V]) *cli.FlagBase[T, C, V] {
	f.Validator = func(value T) error {
		if value < least {
			return fmt.Errorf("it must be %v at least", least)
		}
		return nil
	}
	return f
}

// noneIsZero has zero mean none in a flag, which is a negative number in options.
func noneIsZero[T ~int | ~int64, C any, V cli.ValueCreator[T, C]](f *cli.FlagBase[T, C, V]) *cli.FlagBase[T, C, V] {
	f.Value = max(f.Value, 0)
	return atLeast(0, f)
}
