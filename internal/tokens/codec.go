// Package tokens seals what a suspended saga knows into one opaque string, the token, and
// opens it. It handles bytes; package codec has the keys.
//
//	c, err := tokens.New(keys, tokens.Options{Audience: "https://tools.example.com"})
//	token, err := c.Seal(binding, time.Now(), &tokens.Contents{Claims: claims, State: state})
//	contents, untimely, err := c.OpenAnyTime(binding, time.Now(), token)
//
// A token is encrypted and authenticated. It opens only for the [Binding] and the audience it
// was sealed for, until it expires, and while its key is enabled. [Claims] such as the tool and
// its revision are inside; comparing them with the request is up to the caller. It is not
// single-use: a caller that wants that has to remember [Claims.ID] and [Claims.Turn] somewhere.
//
// Every refusal is a *[Rejected] with one and the same message, so that a client learns
// nothing about why. The [Reason] is for logs and metrics. Nothing is decompressed or decoded
// before it is authenticated, and decompression is bounded all the same.
//
// A token's length is visible, and that of compressed text depends on what it says. Padding
// hides most of that, not all: what the client has no hand in belongs in [Contents.Apart], and
// values that it must not learn in [Contents.Plain] or [Contents.Secret].
//
// The first character of a token is the format's version. Within a version, what one release
// seals every later one opens. A format that changes gets a new version, and the old one
// still opens.
package tokens

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tink-crypto/tink-go/v2/tink"

	"github.com/mcpsaga/mcpsaga/codec"
)

// Defaults and limits of [Options].
const (
	// DefaultTTL is how long a client has to come back, unless configured.
	DefaultTTL = 10 * time.Minute
	// DefaultSkew is by how much the clocks of replicas may differ.
	DefaultSkew = time.Minute
	// DefaultMaxToken is the longest token, in characters.
	DefaultMaxToken = 64 << 10
	// HardMaxToken is the longest token that can be configured, in characters.
	HardMaxToken = 128 << 10
	// DefaultMaxPlaintext is the most a token holds, in bytes before compression.
	DefaultMaxPlaintext = 256 << 10
	// HardMaxPlaintext is the most a token can be configured to hold, in bytes.
	HardMaxPlaintext = 4 << 20
)

// Options configure a [Codec]. The zero value is useful.
type Options struct {
	// Audience is the deployment the tokens are for. It is bound to every token:
	// two deployments that share keys but not an audience refuse each other's.
	Audience string
	// TTL is how long a client has to come back with a token whose
	// [Claims.ExpiresAt] is not set. The default is [DefaultTTL].
	TTL time.Duration
	// Skew is how far the clocks of replicas may differ: it is granted on every
	// check of a time. The default is [DefaultSkew]; a negative value means none.
	Skew time.Duration
	// MaxToken is the longest token sealed and opened, in characters. The default
	// is [DefaultMaxToken], the maximum [HardMaxToken].
	MaxToken int
	// MaxPlaintext is the most a token may hold, all parts of [Contents] together, in
	// bytes before compression. It is checked when sealing, and bounds
	// decompression when opening. The default is [DefaultMaxPlaintext], the
	// maximum [HardMaxPlaintext].
	MaxPlaintext int
}

// withDefaults fills in the zero fields of o and checks the others.
func (o Options) withDefaults() (Options, error) {
	o.TTL, o.Skew = cmp.Or(o.TTL, DefaultTTL), max(cmp.Or(o.Skew, DefaultSkew), 0)
	o.MaxToken, o.MaxPlaintext = cmp.Or(o.MaxToken, DefaultMaxToken), cmp.Or(o.MaxPlaintext, DefaultMaxPlaintext)
	switch {
	case o.TTL < time.Second:
		return o, fmt.Errorf("tokens: Options.TTL is %v: at least one second is needed (TokenTTL of a server)", o.TTL)
	case o.MaxToken < 0 || o.MaxToken > HardMaxToken:
		return o, fmt.Errorf("tokens: Options.MaxToken is %d: it must be between 1 and %d characters", o.MaxToken, HardMaxToken)
	case o.MaxPlaintext < 0 || o.MaxPlaintext > HardMaxPlaintext:
		return o, fmt.Errorf("tokens: Options.MaxPlaintext is %d: it must be between 1 and %d bytes", o.MaxPlaintext, HardMaxPlaintext)
	}
	return o, nil
}

// ID identifies a saga. Its bytes should be random: it is the one thing that
// tells two sagas of the same caller apart.
type ID [16]byte

// String returns the ID as 32 hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Binding names the circumstances a token is bound to. None of it is stored in
// the token: it is associated data of the encryption, so a token presented
// under another binding does not decrypt, and cannot be distinguished from a forgery.
//
// [Options.Audience] and the format version are bound in the same way. Fields
// may be empty and hold any bytes; each is bound with its length, so moving a
// character from one field to the next gives a different binding.
type Binding struct {
	// Purpose separates kinds of token sealed with the same keys, such as
	// "saga" and "checkpoint".
	Purpose string
	// Tenant is whose data the token holds, in a deployment that serves several.
	Tenant string
	// Principal is who may present the token: issuer, subject and whatever else
	// identifies a caller. Empty means an anonymous caller.
	Principal string
}

// associated appends the associated data for b: a fixed label with the format
// version, then every field preceded by its length.
func (b Binding) associated(dst []byte, version byte, audience string) []byte {
	dst = append(dst, "mcpsaga token "...)
	dst = append(dst, version)
	for _, field := range [...]string{b.Purpose, audience, b.Tenant, b.Principal} {
		dst = binary.AppendUvarint(dst, uint64(len(field)))
		dst = append(dst, field...)
	}
	return dst
}

// Codec seals contents into tokens and opens them. It is safe for concurrent
// use.
type Codec struct {
	options Options
	keys    atomic.Pointer[keyring]
	zstd    *compressor
	buffers sync.Pool // of *buffers, or empty
}

// keyring is a keyset and what encrypts with it, which is the keyset itself.
type keyring struct {
	*codec.Keyset
	aead tink.AEAD
}

// buffers are the scratch memory of one Seal or Open.
type buffers struct {
	plain, sealed, text, associated []byte
}

var errNoKeyset = errors.New("tokens: no keyset: create one with codec.NewKeyset, or load one with codec.LoadKeyset")

// New returns a codec that seals with the primary key of keys and opens with
// every enabled one. It fails without a keyset, and if an
// option is out of range.
func New(keys *codec.Keyset, o Options) (*Codec, error) {
	if keys == nil {
		return nil, errNoKeyset
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	z, err := newCompressor(o.MaxPlaintext)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	c := &Codec{options: o, zstd: z}
	c.keys.Store(&keyring{keys, keys})
	return c, nil
}

// SetKeyset replaces the keyset while the codec is in use: every call that
// starts afterwards uses k. A nil k is ignored.
func (c *Codec) SetKeyset(k *codec.Keyset) {
	if k != nil {
		c.keys.Store(&keyring{k, k})
	}
}

// Keyset returns the keyset in use.
func (c *Codec) Keyset() *codec.Keyset { return c.keys.Load().Keyset }

// Options returns the options in use, with defaults filled in.
func (c *Codec) Options() Options { return c.options }

// maxPooled is the largest buffer worth keeping, in bytes.
const maxPooled = 256 << 10

// release clears what b held and returns it to the pool.
func (c *Codec) release(b *buffers) {
	// Plaintext, compressed or not, must not linger in memory that the next
	// caller can get hold of. A part may have held something longer before.
	for _, part := range [...][]byte{b.plain, b.sealed, b.text} {
		clear(part[:cap(part)])
	}
	if cap(b.plain)+cap(b.sealed)+cap(b.text) <= maxPooled {
		c.buffers.Put(b)
	}
}
