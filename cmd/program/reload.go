package program

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"
)

// reload reads the file of --config again at each signal. The level of the log is what it says then, unless the command line or
// the environment says it. All else counts from the next start on, and the log names what has changed: replicas are restarted
// one after the other without a call that is lost. A file that is wrong changes nothing.
func (p *program) reload(ctx context.Context, c *cli.Command, again <-chan os.Signal, log *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-again:
		}
		next := config{path: p.config.path, settings: p.config.settings}
		err := next.read()
		level := slog.LevelInfo
		if e, ok := next.entries["log-level"]; err == nil && ok {
			err = level.UnmarshalText([]byte(e.value))
		}
		if err == nil {
			err = p.check(c.Name, &next)
		}
		if err != nil {
			log.ErrorContext(ctx, "cannot load the settings again, keeping those there are", "error", err)
			continue
		}
		if s := p.config.settings["log-level"]; s.from == "default" || s.inFile {
			p.level.Set(level)
		}
		var changed []string
		for _, f := range c.Flags {
			if name := f.Names()[0]; name != "log-level" && next.entries[name].value != p.config.entries[name].value {
				changed = append(changed, name)
			}
		}
		log.InfoContext(ctx, "settings loaded again", "log-level", p.level.Level())
		if slices.Sort(changed); len(changed) > 0 {
			log.WarnContext(ctx, "some settings have changed, which count from the next start on", "settings", changed)
		}
	}
}

// check fails if a value of a file is none of its flag, of the command of that name. Values of the flags of the tools are not
// tried: they would count.
func (p *program) check(command string, file *config) error {
	another := &program{options: p.options, name: p.name}
	another.options.Flags = nil
	for _, f := range another.command().Command(command).Flags {
		name := f.Names()[0]
		e := file.entries[name]
		for value := range strings.SplitSeq(e.value, listSeparator) {
			if err := f.Set(name, value); err != nil && value != "" { // an empty text is as good as none
				return fmt.Errorf("%s, line %d: %s: %w", file.path, e.line, name, err)
			}
		}
	}
	return nil
}
