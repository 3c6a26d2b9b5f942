package tokens

import (
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
)

// Explanation is what can be said about a token by a holder of the keys, for support and debugging.
type Explanation struct {
	// Version is the token's format, and KeyID the id of the key that sealed it, if it was sealed at all: these are
	// not authenticated.
	Version string
	KeyID   uint32
	// Key describes that key, if it is in the keyset.
	Key *codec.KeyInfo
	// Reason is why [Codec.OpenAnyTime] refuses the token; empty if it does not.
	Reason Reason
	// Detail is the reason in words.
	Detail string
	// Claims are the token's claims, if it is authentic, even if it has expired.
	Claims *Claims
}

// Explain says what [Codec.OpenAnyTime] makes of a token, and shows what it holds if it
// is authentic, even if it is refused for another reason. The result is for
// holders of the keys; do not send it to clients.
//
// All contents are shown to see, unless that is nil, if they decode. The secret section is
// for finding out what there is, not for showing it; it is wiped when see returns.
func (c *Codec) Explain(b Binding, now time.Time, token string, see func(*Contents)) Explanation {
	var x Explanation
	if token != "" && len(token) <= HardMaxToken {
		x.Version = fmt.Sprintf("%c", token[0])
		_, x.KeyID, _ = decodeToken(new(buffers), token)
	}
	if info, ok := c.Keyset().Key(x.KeyID); ok {
		x.Key = &info
	}
	o := new(opened)
	untimely, rejected := c.open(o, b, now, token)
	for _, r := range [...]*Rejected{rejected, untimely} {
		if r != nil {
			x.Reason, x.Detail = r.Reason, r.Detail.Error()
		}
	}
	if o.padding == 0 {
		return x
	}
	x.Claims = &o.Claims
	if see != nil && rejected == nil {
		see(&o.Contents)
	}
	clear(o.Secret)
	return x
}
