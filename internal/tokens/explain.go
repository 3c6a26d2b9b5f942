package tokens

import (
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
)

// Explanation is everything that can be said about a token by somebody who has
// the keys, for support and debugging. It never holds the secret section.
type Explanation struct {
	Inspection
	// Key describes the key that sealed the token, if it is in the keyset.
	Key *codec.KeyInfo
	// Reason is why [Codec.Open] refuses the token; empty if it does not.
	Reason Reason
	// Detail is the reason in words.
	Detail string
	// Claims are the token's claims, if it is authentic, even if it has expired.
	Claims *Claims
	// State, Apart and Plain are the parts of the token's [Contents], if it is authentic
	// and decodes.
	State, Apart, Plain []byte
	// StateLen is the size of these parts together and SecretLen that of the secret
	// section, in bytes before compression.
	StateLen, SecretLen int
	// BodyLen is the size of these parts as stored, and PaddingLen how much was
	// added to hide the true size, in bytes.
	BodyLen, PaddingLen int
	// Coding and ApartCoding say how State and Apart are stored, such as "raw" or "zstd
	// dictionary 1". The latter is empty if there is no Apart.
	Coding, ApartCoding string
}

// Explain says what [Codec.Open] makes of a token, and shows what it holds if it
// is authentic, even if it is refused for another reason. The result is for
// whoever holds the keys; do not send it to clients.
func (c *Codec) Explain(b Binding, now time.Time, token string) Explanation {
	return c.Look(b, now, token, nil)
}

// Look is [Codec.Explain], and shows all contents to see, if the token is authentic and
// decodes. The secret section is for finding out what there is, not for showing it; it
// is wiped when see returns.
func (c *Codec) Look(b Binding, now time.Time, token string, see func(*Contents)) Explanation {
	var x Explanation
	refuse := func(r *Rejected) {
		if r != nil && x.Reason == "" {
			x.Reason = r.Reason
			if r.Detail != nil {
				x.Detail = r.Detail.Error()
			}
		}
	}
	x.Inspection, _ = Inspect(token)
	if info, ok := c.Keyset().Key(x.KeyID); ok {
		x.Key = &info
	}
	buf := c.buffers.Get().(*buffers)
	defer c.release(buf)
	plain, rejected := c.authenticate(buf, b, token)
	if rejected != nil {
		refuse(rejected)
		return x
	}
	var o opened
	if err := o.decodeTimes(plain); err != nil {
		refuse(&Rejected{ReasonFormat, err})
		return x
	}
	refuse(c.checkTimes(&o.claims, now))
	state, apart, rejected := c.decode(buf, &o)
	refuse(rejected)
	if rejected != nil && rejected.Reason == ReasonFormat && o.body == nil {
		return x
	}
	x.Claims = &o.claims
	x.State, x.Apart, x.Plain = state, apart, o.plain
	x.StateLen, x.SecretLen = len(state)+len(apart)+len(o.plain), len(o.secret)
	x.BodyLen, x.PaddingLen = len(o.body)+len(o.apart)+len(o.plain), o.padding
	x.Coding = codingName(o.coding)
	if len(o.apart) > 0 {
		x.ApartCoding = codingName(o.apartCoding)
	}
	if see != nil && rejected == nil {
		see(&Contents{Claims: o.claims, State: state, Apart: apart, Plain: o.plain, Secret: o.secret})
	}
	clear(o.secret)
	return x
}
