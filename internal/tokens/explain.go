package tokens

import (
	"fmt"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
)

// Inspection is what anybody can see of a token, without a key.
type Inspection struct {
	// Version is the token's format.
	Version string
	// KeyID is the id of the key that sealed it, if it was sealed at all:
	// nothing here is authenticated.
	KeyID uint32
	// Length is the token's length in characters.
	Length int
	// Sealed is the size of the encrypted part in bytes.
	Sealed int
}

// Inspect returns what can be seen of a token without a key. It fails with a
// *[Rejected] error if token is no token at all.
func Inspect(token string) (Inspection, error) {
	in := Inspection{Length: len(token)}
	if len(token) > HardMaxToken {
		return in, Reject(ReasonTooLong, "%d characters exceed the limit of %d", len(token), HardMaxToken)
	}
	if token != "" {
		in.Version = fmt.Sprintf("%c", token[0])
	}
	sealed, key, rejected := decodeToken(new(buffers), token)
	in.Sealed, in.KeyID = len(sealed), key
	if rejected != nil {
		return in, rejected
	}
	return in, nil
}

// Explanation is everything that can be said about a token by a holder of
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
// holders of the keys; do not send it to clients.
//
// All contents are shown to see, unless that is nil, if they decode. The secret section is
// for finding out what there is, not for showing it; it is wiped when see returns.
func (c *Codec) Explain(b Binding, now time.Time, token string, see func(*Contents)) Explanation {
	var x Explanation
	x.Inspection, _ = Inspect(token)
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
	x.Claims, x.State, x.Apart, x.Plain = &o.Claims, o.State, o.Apart, o.Plain
	x.StateLen, x.SecretLen = len(o.State)+len(o.Apart)+len(o.Plain), len(o.Secret)
	x.BodyLen, x.PaddingLen = len(o.body)+len(o.apart)+len(o.Plain), o.padding
	x.Coding = codingName(o.coding)
	if len(o.apart) > 0 {
		x.ApartCoding = codingName(o.apartCoding)
	}
	if see != nil && rejected == nil {
		see(&o.Contents)
	}
	clear(o.Secret)
	return x
}
