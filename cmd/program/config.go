package program

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"
	"go.yaml.in/yaml/v3"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/ledger"
)

// setting is what may be said by the environment, or by the file of --config, instead of a flag: a [cli.ValueSource].
type setting struct {
	file     *config
	name     string // in the file
	list     bool   // it takes several values
	variable string // of the environment
	// from is where the value is from. It stays empty if that is the command line, which is looked at first.
	from   string
	inFile bool // from is a line of the file
}

func (s *setting) Lookup() (string, bool) {
	if value := os.Getenv(s.variable); value != "" {
		s.from = "environment, " + s.variable
		return value, true
	}
	if e, ok := s.file.lookUp(s.name); ok {
		s.from, s.inFile = fmt.Sprintf("%s, line %d", s.file.path, e.line), true
		return e.value, true
	}
	s.from = "default"
	return "", false
}

// source is a setting for one flag: several commands may have a flag of that name.
type source struct {
	*setting
	asked bool // so the command line does not have the flag
}

func (s *source) Lookup() (string, bool) {
	s.asked = true
	return s.setting.Lookup()
}

func (s *setting) String() string   { return s.from }
func (s *setting) GoString() string { return s.from }
func (s *setting) IsFromEnv() bool  { return true } // so that help names the variable
func (s *setting) Key() string      { return s.variable }

// config is the file of --config: a YAML mapping of names of flags to their values.
type config struct {
	path     string
	settings map[string]*setting // what it may have
	entries  map[string]entry    // what it has, once it was read
	err      error               // of reading it
}

// entry is a value in a file. What is a list there has a line for each element.
type entry struct {
	value string
	line  int
}

// listSeparator stands between the values of a flag that takes several, in one text. Commas belong to the values.
const listSeparator = "\n"

// lookUp returns what the file has of a setting. It reads the file when its name is known: when the flags of the
// command line were parsed.
func (f *config) lookUp(name string) (entry, bool) {
	if f.path != "" && f.entries == nil && f.err == nil {
		f.err = f.read()
	}
	e, ok := f.entries[name]
	return e, ok
}

func (f *config) read() error {
	file, err := os.Open(f.path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	defer file.Close()
	d := yaml.NewDecoder(file)
	var all map[string]yaml.Node
	if err := d.Decode(&all); err != nil && !errors.Is(err, io.EOF) { // an empty file says nothing
		return fmt.Errorf("%s is no YAML mapping of settings: %w", f.path, err)
	} else if err == nil && !errors.Is(d.Decode(new(yaml.Node)), io.EOF) {
		return fmt.Errorf("%s has more than one document", f.path)
	}
	known := slices.Sorted(maps.Keys(f.settings))
	entries := make(map[string]entry)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		node := all[name]
		s := f.settings[name]
		if s == nil {
			return fmt.Errorf("%s, line %d: there is no setting %q%s", f.path, node.Line, name, didYouMean(name, "", known))
		}
		value, ok := s.textOf(&node)
		switch {
		case ok:
		case s.list:
			return fmt.Errorf("%s, line %d: %s is a value, or a list of values, each on one line", f.path, node.Line, name)
		default:
			return fmt.Errorf("%s, line %d: %s is one value", f.path, node.Line, name)
		}
		entries[name] = entry{value, node.Line}
	}
	f.entries = entries
	return nil
}

// textOf returns a value as it is written, so that off stays off, which YAML takes for false.
func (s *setting) textOf(node *yaml.Node) (text string, ok bool) {
	switch {
	case node.Kind == yaml.AliasNode:
		return s.textOf(node.Alias)
	case node.Kind == yaml.ScalarNode:
		return node.Value, node.Tag != "!!null" && !(s.list && strings.Contains(node.Value, listSeparator))
	case node.Kind != yaml.SequenceNode || !s.list:
		return "", false
	}
	var texts []string
	for _, n := range node.Content {
		if n.Kind != yaml.ScalarNode {
			return "", false
		}
		text, ok := s.textOf(n)
		if !ok {
			return "", false
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, listSeparator), true
}

// tryConfig refuses what a server would refuse of the flags, before it looks at keys, ledger and tools.
func (p *program) tryConfig(ctx context.Context, c *cli.Command) (err error) {
	if _, err := p.completeOptions(ctx, c); err != nil {
		return err
	}
	if err := p.checkAuth(c); err != nil {
		return err
	}
	o := p.server
	switch name, _ := p.ledgerOf(c); {
	case name == ledgerSQLite, shownLedger(name) == shownLedger(""): // which names none
		return p.usage(c, "%v", errNoSuchLedger)
	case name != ledgerOff:
		o.Ledger = ledger.NewMemory(ledger.MemoryOptions{})
	}
	if o.Questions.PageURL, err = p.pageURL(c, o.Ledger, nil); err != nil {
		return err
	}
	if o.Keys, err = codec.NewKeyset(); err != nil {
		return failed(err)
	}
	o.Tools, o.ToolRates, o.WorkersPerTool, o.Logger = nil, nil, nil, slog.New(slog.DiscardHandler)
	s, err := p.newServer(c, o)
	if err == nil {
		s.Close()
	}
	return err
}

// printConfig prints what is set of a server, and where each of it is from, as a file for --config. It shows no
// password of a ledger, and no texts of the flags of the tools.
func (p *program) printConfig(c *cli.Command) error {
	for _, f := range c.Flags {
		name := f.Names()[0]
		s := p.config.settings[name]
		if s == nil {
			continue // help, and the like
		}
		value, from := c.Value(name), cmp.Or(s.from, "command line")
		hidden := ""
		switch text, isText := value.(string); {
		case name == "keyset":
			value, _ = p.keysetName(c)
			if text == "" { // one that is named must exist
				hidden = fmt.Sprintf("this user's own, %v", value)
			}
		case name == "audience":
			value, _ = p.audienceOf(c)
		case name == "ledger":
			ledger, _ := p.ledgerOf(c)
			if value = shownLedger(ledger); value != ledger {
				hidden = "without what may be secret: " + shownLedger(ledger)
			}
		case name == "auth-introspect-secret" && shownSecret(text) != text:
			hidden = "not shown, as it is no name of a file or variable"
		case isText && text != "" && p.options.Flags != nil && p.options.Flags.Lookup(name) != nil:
			hidden = "not shown"
		case text == "" && isText && (from == "default" || strings.HasPrefix(name, "auth-")): // checkAuth wants no empty entries
			hidden = "not set"
		}
		if hidden != "" {
			p.print(fmt.Sprintf("# %s: %s  # %s", name, hidden, from))
			continue
		}
		var node yaml.Node
		if err := node.Encode(value); err != nil {
			return err
		}
		node.Style |= yaml.FlowStyle
		line, err := yaml.Marshal(&node)
		if err != nil {
			return err
		}
		p.print(fmt.Sprintf("%s: %s  # %s", name, strings.TrimSpace(string(line)), from))
	}
	for tool, n := range p.server.WorkersPerTool {
		p.print(fmt.Sprintf("# workers of the tool %s: %d  # program", tool, n))
	}
	return nil
}

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
