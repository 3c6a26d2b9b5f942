package tokens

import (
	"errors"
	"time"

	"github.com/mcpsaga/mcpsaga/codec"
)

// Open authenticates a token, checks its times against now, and returns what it
// holds. Every failure is a *[Rejected] error with one and the same message;
// its Reason says why, for logs.
//
// It does not check tool, revision or request, of which it knows nothing: that
// is the caller's part. See [Reject].
func (c *Codec) Open(b Binding, now time.Time, token string) (*Contents, error) {
	x, untimely, err := c.OpenAnyTime(b, now, token)
	if err != nil {
		return nil, err
	}
	if untimely != nil {
		return nil, untimely
	}
	return x, nil
}

// OpenAnyTime is [Codec.Open] for callers that have to look after what a saga has done:
// an authentic token that is refused only for its time is returned together with
// that rejection. If it has expired, or is past its deadline, it must not be resumed;
// how late it may be for anything else is for the caller to decide. If it is of the future
// ([ReasonNotYetValid]), a clock is or was wrong, and the token is good as soon as the clocks agree.
func (c *Codec) OpenAnyTime(b Binding, now time.Time, token string) (x *Contents, untimely *Rejected, err error) {
	buf := c.buffers.Get().(*buffers)
	defer c.release(buf)
	plain, rejected := c.authenticate(buf, b, token)
	if rejected != nil {
		return nil, nil, rejected
	}
	var o opened
	if err := o.decodeTimes(plain); err != nil {
		return nil, nil, &Rejected{ReasonFormat, err}
	}
	untimely = c.checkTimes(&o.claims, now)
	state, apart, rejected := c.decode(buf, &o)
	if rejected != nil {
		return nil, nil, rejected
	}
	return &Contents{Claims: o.claims, State: state, Apart: apart, Plain: o.plain, Secret: o.secret}, untimely, nil
}

// errAuthentication does not repeat Tink's message, which says less.
var errAuthentication = errors.New("does not decrypt: altered, or made for another audience, purpose, tenant or principal")

// authenticate returns the plaintext of a token, in memory of its own. Up to the
// decryption, the work does not depend on anything but the token's length.
func (c *Codec) authenticate(buf *buffers, b Binding, token string) ([]byte, *Rejected) {
	if len(token) > c.options.MaxToken {
		return nil, Reject(ReasonTooLong, "%d characters exceed the limit of %d", len(token), c.options.MaxToken)
	}
	sealed, rejected := decodeToken(buf, token)
	if rejected != nil {
		return nil, rejected
	}
	keys := c.keys.Load()
	id, ok := keyID(sealed)
	if !ok {
		return nil, Reject(ReasonUnknownKey, "the token does not begin with a key id")
	}
	if info, ok := keys.Key(id); !ok {
		return nil, Reject(ReasonUnknownKey, "key %08x is not in the keyset", id)
	} else if info.Status != codec.Enabled {
		return nil, Reject(ReasonUnknownKey, "key %08x is disabled", id)
	}
	buf.associated = b.associated(buf.associated[:0], version, c.options.Audience)
	plain, err := keys.aead.Decrypt(sealed, buf.associated)
	if err != nil {
		return nil, &Rejected{ReasonAuthentication, errAuthentication}
	}
	return plain, nil
}

// checkTimes refuses tokens of the future and of the past.
func (c *Codec) checkTimes(claims *Claims, now time.Time) *Rejected {
	skew := c.options.Skew
	switch {
	case claims.IssuedAt.After(now.Add(skew)):
		return Reject(ReasonNotYetValid, "issued at %v, which is in the future", claims.IssuedAt)
	case !claims.Deadline.IsZero() && !now.Before(claims.Deadline.Add(skew)):
		return Reject(ReasonDeadline, "the saga's deadline was %v", claims.Deadline)
	case !now.Before(claims.ExpiresAt.Add(skew)):
		return Reject(ReasonExpired, "expired at %v", claims.ExpiresAt)
	}
	return nil
}

// decode finishes what decodeTimes began, and returns the state and its part.
func (c *Codec) decode(buf *buffers, o *opened) (state, apart []byte, rejected *Rejected) {
	if err := o.decodeRest(c.options.MaxPlaintext); err != nil {
		return nil, nil, &Rejected{ReasonFormat, err}
	}
	limit := c.options.MaxPlaintext - len(o.secret) - len(o.plain)
	if len(o.apart) > 0 {
		if apart, rejected = c.zstd.decode(buf, o.apartCoding, o.apart, limit); rejected != nil {
			return nil, nil, rejected
		}
		limit -= len(apart)
	}
	state, rejected = c.zstd.decode(buf, o.coding, o.body, limit)
	return state, apart, rejected
}
