package main

import (
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/codec"
)

// purposes are what the server's dialects seal tokens for. A token can be opened
// only with the one it was made for, so all are tried.
var purposes = []string{"saga", "mrtr", "handshake"}

// looker looks into tokens, if it has keys.
type looker struct {
	codec *codec.Codec
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
	opener, err := codec.New(keys, codec.Options{Audience: c.String("audience"), MaxToken: codec.HardMaxToken, MaxPlaintext: codec.HardMaxPlaintext})
	return &looker{opener, err}
}

// at explains a token, and says what it was made for. Both are empty without keys.
func (l *looker) at(token string) (found *codec.Explanation, purpose string) {
	if l.err != nil {
		return nil, ""
	}
	for _, purpose = range purposes {
		x := l.codec.Explain(codec.Binding{Purpose: purpose}, time.Now(), token)
		if found = &x; x.Claims != nil {
			break
		}
	}
	return found, purpose
}
