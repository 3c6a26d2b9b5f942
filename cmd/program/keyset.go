package program

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/tink-crypto/tink-go/v2/tink"
	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/cmd/program/internal/keyfile"
	"github.com/mcpsaga/mcpsaga/codec"
)

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
