package tokens

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Seal returns a token that holds x, for the given binding. Times that are zero
// in x.Claims are filled in from now and the options, see [Claims]; x itself is
// not changed.
//
// It fails with a *[TooLargeError] if x or the token exceeds a limit, and if the claims make
// no sense.
func (c *Codec) Seal(b Binding, now time.Time, x *Contents) (string, error) {
	if x == nil {
		return "", errors.New("tokens: there is nothing to seal")
	}
	claims, err := c.complete(&x.Claims, now)
	if err != nil {
		return "", err
	}
	if size := x.size(); size > c.options.MaxPlaintext {
		return "", &TooLargeError{"contents", size, c.options.MaxPlaintext}
	}

	buf := c.buffers.Get().(*buffers)
	defer c.release(buf)
	buf.plain = appendPadding(c.appendContents(buf, &claims, x))
	buf.associated = b.associated(buf.associated[:0], version, c.options.Audience)

	sealed, err := c.keys.Load().aead.Encrypt(buf.plain, buf.associated)
	if err != nil {
		return "", fmt.Errorf("tokens: seal: %w", err)
	}
	if n := tokenLength(len(sealed)); n > c.options.MaxToken {
		return "", &TooLargeError{"token", n, c.options.MaxToken}
	}
	buf.text = appendToken(buf.text[:0], sealed)
	return string(buf.text), nil
}

// appendContents puts together what is padded and encrypted.
func (c *Codec) appendContents(buf *buffers, claims *Claims, x *Contents) []byte {
	plain := appendClaims(buf.plain[:0], 0, claims, x.Secret)
	if len(x.Apart)+len(x.Plain) > 0 {
		coding, apart := c.zstd.encode(buf, x.Apart)
		plain = appendParts(plain, coding, apart, x.Plain)
	}
	coding, body := c.zstd.encode(buf, x.State)
	plain[0] |= coding
	return append(plain, body...)
}

// complete returns the claims with their times filled in, after checking them.
func (c *Codec) complete(in *Claims, now time.Time) (Claims, error) {
	claims := *in
	if claims.IssuedAt.IsZero() {
		claims.IssuedAt = now
	}
	if claims.ExpiresAt.IsZero() {
		claims.ExpiresAt = claims.IssuedAt.Add(c.options.TTL)
		if !claims.Deadline.IsZero() && claims.Deadline.Before(claims.ExpiresAt) {
			claims.ExpiresAt = claims.Deadline
		}
	}
	for _, part := range [...]struct {
		what       string
		size, most int
	}{
		{"tool", len(claims.Tool), MaxTool},
		{"request", len(claims.Request), MaxRequest},
		{"trace", len(claims.Trace), MaxTrace},
	} {
		if part.size > part.most {
			return claims, &TooLargeError{part.what, part.size, part.most}
		}
	}
	issued := claims.IssuedAt.Unix()
	for _, t := range [...]struct {
		claim string
		at    time.Time
	}{{"IssuedAt", claims.IssuedAt}, {"ExpiresAt", claims.ExpiresAt}, {"Deadline", claims.Deadline}} {
		if t.claim == "Deadline" && t.at.IsZero() {
			continue
		}
		switch at := t.at.Unix(); {
		case at < 0 || at > math.MaxUint32:
			return claims, fmt.Errorf("tokens: claim %s is %v, which is not between 1970 and 2106", t.claim, t.at)
		case at < issued:
			return claims, fmt.Errorf("tokens: claim %s is %v, which is before the token is issued at %v", t.claim, t.at, claims.IssuedAt)
		}
	}
	return claims, nil
}
