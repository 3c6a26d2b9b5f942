package main

import (
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
	"github.com/mcpsaga/mcpsaga/saga"
)

// purposes are what the server's dialects seal tokens for. A token can be opened
// only with the one it was made for, so all are tried.
var purposes = []string{"saga", "mrtr", "handshake"}

// looker looks into tokens, if it has keys.
type looker struct {
	codec *tokens.Codec
	err   error
}

// newLooker has the keys of --keyset, or this user's own, and the audience of
// --audience.
func newLooker(c *cli.Command) *looker {
	path, err := keysetPath(c)
	if err != nil {
		return &looker{err: err}
	}
	keys, err := codec.LoadKeyset(path)
	if err != nil {
		return &looker{err: err}
	}
	opener, err := tokens.New(keys, tokens.Options{Audience: c.String("audience"), MaxToken: tokens.HardMaxToken, MaxPlaintext: tokens.HardMaxPlaintext})
	return &looker{opener, err}
}

// sight is what can be seen of a token.
type sight struct {
	tokens.Explanation
	// purpose is what the token was made for.
	purpose string
	// holds is what it holds; nil if it is not authentic, or if err says why not.
	holds *saga.Description
	err   error
}

// at looks into a token. It returns nil without keys.
func (l *looker) at(token string) *sight {
	if l.err != nil {
		return nil
	}
	var s *sight
	for _, purpose := range purposes {
		s = &sight{purpose: purpose}
		s.Explanation = l.codec.Look(tokens.Binding{Purpose: purpose}, time.Now(), token, s.describe)
		if s.Claims != nil {
			break
		}
	}
	return s
}

func (s *sight) describe(all *tokens.Contents) {
	var position saga.Position
	var holds saga.Description
	if s.err = position.Restore(saga.Encoded{Body: all.State, State: all.Apart, Effects: all.Plain, Secrets: all.Secret}); s.err == nil {
		holds, s.err = position.Describe()
	}
	if s.err == nil {
		s.holds = &holds
	}
}
