// Package secrets keeps secrets between turns, as it should and as it should not.
package secrets

import (
	"time"

	"github.com/mcpsaga/mcpsaga/saga"
	"github.com/mcpsaga/mcpsaga/steps"
)

type args struct {
	Password string // the client's own
}

type state struct {
	Password string            // want `field Password is named like a secret, but is kept in the state like anything else: logs may show it, and the length of what is compressed may tell it. Make it a saga.Secret, or say why it is none in the tag notsecret:"..."`
	ByUser   string            `json:"access_token"` // want `field ByUser is named like a secret`
	APIKeys  []string          // want `field APIKeys is named`
	PIN      *string           // want `field PIN is named`
	Tokens   map[string]string // a table of them, or what was counted
	Within   within
	Several  []within
	embedded
	Sealed sealed

	Secret     saga.Secret
	TokenCount int
	PageToken  string
	NextToken  string
	Token      string `notsecret:"what the lexer read last"`
	Otp        bool
	TokenAt    time.Time
	Key        saga.Key
	token      string
	Skipped    string `json:"-"`
}

type within struct {
	ClientSecret []byte // want `field ClientSecret is named`
	Next         *within
}

// sealed encodes itself, so its fields are not what is kept.
type sealed struct{ Password string }

func (sealed) MarshalText() ([]byte, error) { return []byte("x"), nil }
func (*sealed) UnmarshalText([]byte) error  { return nil }

type embedded struct {
	Jwt named // want `field Jwt is named`
}

type named string

type login struct {
	User, Password string // want `field Password is named like a secret, but is kept in the input of the effect`
}

type session struct {
	Token string `json:"token"` // want `field Token is named like a secret, but is kept in the result of the effect`
}

type card struct {
	CardNumber string `json:"number"` // want `field CardNumber is named like a secret, but is kept in the state`
}

type flat struct{ Credentials string } // want `field Credentials is named`

type form struct {
	Sure bool `json:"sure"`
}

var _ = []saga.Definition{
	saga.Machine[args, state]{},
	saga.Machine[args, state]{}, // the same is said once
	saga.Prompt[args, card]{},
	&saga.Resource[args, map[string]flat]{},
	saga.Flow[args, session2]{Info: saga.Info{Asks: []steps.Question{&steps.Form[form]{}}}}, // arguments and results go to the client anyway
}

type session2 struct{ Token string }

var _ = []saga.Declared{
	&saga.Effect[login, session]{},
	&saga.Effect[string, time.Time]{},
}

var _ = state{}.token
