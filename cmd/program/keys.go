package program

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tink-crypto/tink-go/v2/tink"
	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/cmd/program/internal/keyfile"
	"github.com/mcpsaga/mcpsaga/codec"
)

func (p *program) keysCommand() *cli.Command {
	return &cli.Command{
		Name:  "keys",
		Usage: "create and rotate the keys that seal tokens",
		Description: `A keyset holds one primary key, which seals, and others, which still open. To rotate
without refusing a token:

   {program} keys add                  a new key, which only opens
   (distribute the file; servers load it by themselves)
   (wait until every server shows the key at /readyz)
   {program} keys promote ID
   (distribute it again, and wait for one --token-ttl; if there is a ledger,
   for a day, and longer for tasks from before)
   {program} keys disable OLD
   (distribute it; when no client complains:)
   {program} keys destroy OLD --yes`,
		Commands: []*cli.Command{
			p.keysetCommand(&cli.Command{
				Name: "new", Usage: "create a keyset file with one key",
				Description: "Refuses to replace a file that exists: its keys would be lost. The file gets the mode 0600.",
				Flags:       []cli.Flag{p.typeFlag()},
			}, p.newKeyset),
			p.keysetCommand(&cli.Command{Name: "list", Usage: "show the keys of a keyset, without revealing them"},
				func(_ context.Context, _ *cli.Command, s keysetSource) (*codec.Keyset, string, error) {
					keys, err := s.Load()
					return keys, "", err
				}),
			p.keysetCommand(&cli.Command{
				Name: "add", Usage: "add a key, which opens tokens but does not seal them yet",
				Flags: []cli.Flag{p.typeFlag()},
			}, p.addKey),
			p.keysetCommand(&cli.Command{
				Name: "encrypt", Usage: "encrypt the keys of a keyset in clear text, by a KMS, in another file",
				Description: `Start the servers again, one after the other, with the new file and --keyset-kms. Then remove the
one in clear text, of which all keys are in the new one.`,
				Flags: []cli.Flag{&cli.StringFlag{Name: "to", Usage: "the `FILE` to create", Sources: p.sources("encrypt-to")}},
			}, p.encryptKeyset),
			p.keyCommand(&cli.Command{
				Name: "promote", Usage: "seal with a key from now on",
				Description: `Do it when every server has loaded the key, as each says at /readyz: one without it refuses the
tokens that the others seal.`,
			}, "promoted: it seals from now on", (*codec.Keyset).Promote),
			p.keyCommand(&cli.Command{
				Name: "disable", Usage: "refuse the tokens that a key sealed",
				Description: `Do it no sooner than one token TTL after another key was promoted. If there is a ledger, wait for a
day, and until it has no tasks from before: what the key sealed there is forgotten, and not undone.
{program} keys enable undoes it.`,
			}, "disabled: its tokens are refused", (*codec.Keyset).Disable),
			p.keyCommand(&cli.Command{Name: "enable", Usage: "accept the tokens of a disabled key again"},
				"enabled: its tokens are accepted", (*codec.Keyset).Enable),
			p.keyCommand(&cli.Command{
				Name: "destroy", Usage: "remove a disabled key for ever",
				Description: "There is no way back: what the key sealed can never be opened again.",
				Flags:       []cli.Flag{&cli.BoolFlag{Name: "yes", Usage: "confirm that the key shall be gone"}},
			}, "destroyed", (*codec.Keyset).Destroy),
		},
	}
}

// keysetCommand completes a command about a keyset. do says what it has done; then
// the keys are shown.
func (p *program) keysetCommand(c *cli.Command, do func(ctx context.Context, c *cli.Command, s keysetSource) (keys *codec.Keyset, done string, err error)) *cli.Command {
	c.Flags = append([]cli.Flag{p.keysetFlag(), p.kmsFlag()}, c.Flags...)
	c.Action = func(ctx context.Context, c *cli.Command) error {
		s, err := p.keyset(ctx, c)
		if err != nil {
			return err
		}
		if s.variable != "" && c.Name != "list" {
			return p.usage(c, "a keyset in the environment can be listed here, but not changed: change it in a file, and set the variable %s to what is in it", s.variable)
		}
		keys, done, err := do(ctx, c, s)
		if errors.Is(err, fs.ErrNotExist) {
			if _, missing := os.Stat(filepath.Dir(s.Path)); missing != nil {
				return failed(fmt.Errorf("%w\nthere is no directory %s: make it first, or name another file with --keyset", err, filepath.Dir(s.Path)))
			}
			return failed(fmt.Errorf("%w\ncreate it with: %s", err, p.keysLine(c, "new")))
		}
		if err != nil {
			return failed(err)
		}
		if done != "" {
			p.remark("%s", done)
		}
		return printRows(p, c, keys.Keys(), "", "ID\tTYPE\tSTATUS\tUSE", func(key codec.KeyInfo) string {
			use := "opens"
			switch {
			case key.Primary:
				use = "seals and opens"
			case !key.Enabled:
				use = "nothing"
			}
			return fmt.Sprintf("%s\t%s\t%s\t%s", keyID(key.ID), key.Type, key.Status(), use)
		})
	}
	return c
}

func (p *program) newKeyset(_ context.Context, c *cli.Command, s keysetSource) (*codec.Keyset, string, error) {
	if c.String("keyset") == "" {
		if err := os.MkdirAll(filepath.Dir(s.Path), 0o700); err != nil {
			return nil, "", err
		}
	}
	keys, err := codec.NewKeyset(codec.KeyType(c.String("type")))
	if err == nil {
		err = s.Create(keys)
	}
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%s exists; to put a new key into it: %s", s.Path, p.keysLine(c, "add"))
	}
	return keys, "created " + s.Path, err
}

func (p *program) addKey(ctx context.Context, c *cli.Command, s keysetSource) (*codec.Keyset, string, error) {
	var id uint32
	keys, err := s.Update(ctx, func(k *codec.Keyset) (added *codec.Keyset, err error) {
		added, id, err = k.Add(codec.KeyType(c.String("type")))
		return added, err
	})
	return keys, fmt.Sprintf("added key %s. When every server has loaded it: %s %[1]s", keyID(id), p.keysLine(c, "promote")), err
}

func (p *program) encryptKeyset(_ context.Context, c *cli.Command, s keysetSource) (*codec.Keyset, string, error) {
	to := c.String("to")
	if s.KMS == nil || to == "" {
		return nil, "", p.usage(c, "name the key of the KMS with --keyset-kms, and the file to create with --to")
	}
	keys, err := codec.LoadKeyset(s.Path)
	if err == nil {
		if err = (codec.KeysetFile{Path: to, KMS: s.KMS}).Create(keys); err != nil {
			err = errors.New(err.Error()) // it is not about the keyset that is there
		}
	}
	return keys, "created " + to, err
}

func (p *program) typeFlag() cli.Flag {
	var types []string
	for _, t := range codec.KeyTypes() {
		types = append(types, string(t))
	}
	return &cli.StringFlag{Name: "type", Usage: "the kind of key: " + strings.Join(types, ", "), Value: string(codec.XAES256GCM), Sources: p.sources("key-type")}
}

// keyCommand completes a command that changes one key of a keyset.
func (p *program) keyCommand(c *cli.Command, done string, change func(*codec.Keyset, uint32) (*codec.Keyset, error)) *cli.Command {
	c.ArgsUsage = "ID"
	return p.keysetCommand(c, func(ctx context.Context, c *cli.Command, s keysetSource) (*codec.Keyset, string, error) {
		text, err := p.oneArgument(c, "id of the key")
		if err != nil {
			return nil, "", err
		}
		keys, err := s.Update(ctx, func(keys *codec.Keyset) (*codec.Keyset, error) {
			all := keys.Keys()
			i := slices.IndexFunc(all, func(k codec.KeyInfo) bool { return strings.EqualFold(keyID(k.ID), text) })
			switch {
			case i < 0:
				return nil, p.usage(c, "the keyset has no key %q; %s shows them", text, p.keysLine(c, "list"))
			case c.Name == "destroy" && !c.Bool("yes"):
				return nil, p.usage(c, "a destroyed key is gone for ever; confirm with --yes")
			}
			return change(keys, all[i].ID)
		})
		return keys, fmt.Sprintf("key %s %s", strings.ToLower(text), done), err
	})
}

// keyID is how keys are named here and at /readyz.
func keyID(id uint32) string { return fmt.Sprintf("%08x", id) }

// keysLine is the command line of a command for the same keyset.
func (p *program) keysLine(c *cli.Command, name string) string {
	line := p.self + " keys " + name
	for _, flag := range []string{"keyset", "keyset-kms"} {
		if value := c.String(flag); value != "" {
			line += " --" + flag + " " + quote(value)
		}
	}
	return line
}

// inEnvironment begins what --keyset says of a keyset that is in an environment variable.
const inEnvironment = "env:"

// keysetSource is where the keyset is that the flags name.
type keysetSource struct {
	codec.KeysetFile
	// variable is that of the environment which has the keyset. It is empty if a file has it.
	variable string
}

func (p *program) keysetFlag() cli.Flag {
	return p.stringFlag("keyset", "the keyset `FILE`, or env:VARIABLE (default: this user's own)", "")
}

func (p *program) kmsFlag() cli.Flag {
	return p.stringFlag("keyset-kms", "the `URI` of the key of a KMS that encrypts the keyset, in programs that can ask one", "")
}

// keysetName is the file of --keyset, or this user's own, or a variable behind env:.
func (p *program) keysetName(c *cli.Command) (string, error) {
	if name := c.String("keyset"); name != "" {
		return name, nil
	}
	return keyfile.Default(p.name)
}

// keyset says where the keyset is. No KMS has been asked yet.
func (p *program) keyset(ctx context.Context, c *cli.Command) (s keysetSource, err error) {
	if s.Path, err = p.keysetName(c); err != nil {
		return s, failed(err)
	}
	if variable, is := strings.CutPrefix(s.Path, inEnvironment); is {
		if s.variable = variable; variable == "" {
			return s, p.usage(c, "--keyset env: needs the name of the environment variable that has the keyset")
		}
	}
	uri := c.String("keyset-kms")
	switch {
	case uri == "":
	case p.options.KMS == nil:
		return s, p.usage(c, "--keyset-kms: this program can ask no KMS; one of your own can, with program.Options.KMS, such as vault.KMS")
	default:
		s.KMS = &keyfile.Key{Context: ctx, Open: func(ctx context.Context) (tink.AEAD, error) { return p.options.KMS(ctx, uri) }}
	}
	return s, nil
}

// Load loads the keyset. What it takes from the environment is no longer there for the processes that tools start.
func (s keysetSource) Load() (keys *codec.Keyset, err error) {
	if s.variable == "" {
		return s.KeysetFile.Load()
	}
	text := []byte(os.Getenv(s.variable))
	defer clear(text)
	if len(text) == 0 {
		return nil, fmt.Errorf("there is no keyset in the environment variable %s that --keyset names", s.variable)
	}
	if err := os.Unsetenv(s.variable); err != nil {
		return nil, err
	}
	if s.KMS == nil {
		keys, err = codec.ParseKeyset(text)
	} else {
		keys, err = codec.ParseEncryptedKeyset(text, s.KMS)
	}
	if err != nil {
		err = fmt.Errorf("%w (in the environment variable %s)", err, s.variable)
	}
	return keys, err
}

// loadKeys loads the keyset of a server. One that was asked for by name must exist: to create
// it would hide a typing mistake, and split a deployment in two.
func (p *program) loadKeys(c *cli.Command, s keysetSource) (*codec.Keyset, error) {
	if c.String("keyset") != "" {
		keys, err := s.Load()
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w\ncreate it with: %s", err, p.keysLine(c, "new"))
		}
		return keys, err
	}
	keys, created, err := keyfile.LoadOrCreate(s.KeysetFile)
	if errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("there is no place for a keyset of your own: %w\nname one with --keyset; %s keys new makes it", err, p.self)
	}
	if created {
		p.remark("created a keyset for you at %s (mode 0600). Other replicas need a copy of it.", s.Path)
	}
	return keys, err
}

// namedKeys loads the keyset that the flags name, which must be that of a server.
func (p *program) namedKeys(ctx context.Context, c *cli.Command) (*codec.Keyset, error) {
	s, err := p.keyset(ctx, c)
	if err != nil {
		return nil, err
	}
	keys, err := s.Load()
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w\nname that of the server with --keyset", err)
	}
	return keys, failed(err)
}
