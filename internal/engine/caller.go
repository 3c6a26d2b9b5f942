package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
)

// Caller is who calls: saga.Caller says what its fields mean. It is for reading.
type Caller struct {
	Issuer, Subject, Client string
	Scopes                  []string
	Claims                  map[string]string
}

// Limits of what a request says of its caller besides who that is: the ledger keeps it with every saga.
const (
	MaxScopes     = 100
	MaxScopeBytes = 4 << 10
	MaxClaimBytes = 4 << 10
)

// Check fails if there is more than the limits allow, or if it is anonymous and has any.
func (c *Caller) Check() error {
	scopes, claims := 0, 0
	for _, s := range c.Scopes {
		scopes += len(s)
	}
	for name, value := range c.Claims {
		claims += len(name) + len(value)
	}
	switch {
	case c.Anonymous() && len(c.Scopes)+len(c.Claims) > 0:
		return errors.New("a caller has scopes or claims, and neither an issuer nor a subject nor a client whose they are")
	case len(c.Scopes) > MaxScopes || scopes > MaxScopeBytes:
		return fmt.Errorf("a caller has %d scopes of %d bytes; it may have %d, of %d bytes in all", len(c.Scopes), scopes, MaxScopes, MaxScopeBytes)
	case claims > MaxClaimBytes:
		return fmt.Errorf("a caller has claims of %d bytes; names and values may have %d: choose those that tools need", claims, MaxClaimBytes)
	}
	return nil
}

// Anonymous reports whether nothing is known of who it is.
func (c *Caller) Anonymous() bool {
	return c == nil || c.Issuer == "" && c.Subject == "" && c.Client == ""
}

// Binding returns who it is, without scopes and claims, as one string in which no two look the same; empty if it is
// anonymous.
func (c *Caller) Binding() string {
	if c.Anonymous() {
		return ""
	}
	b := make([]byte, 0, len(c.Issuer)+len(c.Subject)+len(c.Client)+3*binary.MaxVarintLen16)
	for _, s := range []string{c.Issuer, c.Subject, c.Client} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return string(b)
}

// CallerOfBinding is the caller whose binding that is, without scopes and claims.
func CallerOfBinding(binding string) (c Caller) {
	for _, s := range []*string{&c.Issuer, &c.Subject, &c.Client} {
		n, size := binary.Uvarint([]byte(binding))
		if size <= 0 || n > uint64(len(binding)-size) {
			return Caller{} // it is anonymous
		}
		*s, binding = binding[size:size+int(n)], binding[size+int(n):]
	}
	return c
}

type callerKey struct{}

// WithCaller returns a context of what is done for a caller; nil is an anonymous one.
func WithCaller(ctx context.Context, c *Caller) context.Context {
	if c == CallerOf(ctx) {
		return ctx
	}
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf returns the caller for whom something is done; nil is an anonymous one.
func CallerOf(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}
