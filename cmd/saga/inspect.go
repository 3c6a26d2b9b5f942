package main

import (
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/engine"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// purposes are what the server's dialects seal tokens for. A token can be opened
// only with the one it was made for, so all are tried.
var purposes = []string{"saga", "mrtr", "handshake"}

// inspector opens tokens, if it has keys.
type inspector struct {
	codec *tokens.Codec
	err   error
}

// newInspector has the keys of --keyset, or this user's own, and the audience of
// --audience.
func newInspector(c *cli.Command) *inspector {
	path, err := keysetPath(c)
	if err != nil {
		return &inspector{err: err}
	}
	keys, err := codec.LoadKeyset(path)
	if err != nil {
		return &inspector{err: err}
	}
	opener, err := tokens.New(keys, tokens.Options{Audience: c.String("audience"), MaxToken: tokens.HardMaxToken, MaxPlaintext: tokens.HardMaxPlaintext})
	return &inspector{opener, err}
}

// inspection is what can be seen of a token.
type inspection struct {
	tokens.Explanation
	// purpose is what the token was made for.
	purpose string
	// holds is what it holds; nil if it is not authentic, or if err says why not.
	holds *engine.Description
	err   error
}

// inspect opens a token. It returns nil without keys.
func (l *inspector) inspect(token string) *inspection {
	if l.err != nil {
		return nil
	}
	var s *inspection
	for _, purpose := range purposes {
		s = &inspection{purpose: purpose}
		s.Explanation = l.codec.Explain(tokens.Binding{Purpose: purpose}, time.Now(), token, s.describe)
		if s.Claims != nil {
			break
		}
	}
	return s
}

func (s *inspection) describe(all *tokens.Contents) {
	var position engine.Position
	var holds engine.Description
	if s.err = position.Restore(engine.Encoded{Body: all.State, State: all.Apart, Effects: all.Plain, Secrets: all.Secret}); s.err == nil {
		holds, s.err = position.Describe()
	}
	if s.err == nil {
		s.holds = &holds
	}
}
