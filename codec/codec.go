package codec

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
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
	if o.TTL == 0 {
		o.TTL = DefaultTTL
	}
	if o.Skew == 0 {
		o.Skew = DefaultSkew
	}
	if o.MaxToken == 0 {
		o.MaxToken = DefaultMaxToken
	}
	if o.MaxPlaintext == 0 {
		o.MaxPlaintext = DefaultMaxPlaintext
	}
	o.Skew = max(o.Skew, 0)
	switch {
	case o.TTL < time.Second:
		return o, &OptionError{"TTL", fmt.Sprintf("is %v: at least one second is needed", o.TTL)}
	case o.MaxToken < 0 || o.MaxToken > HardMaxToken:
		return o, &OptionError{"MaxToken", fmt.Sprintf("is %d: it must be between 1 and %d characters", o.MaxToken, HardMaxToken)}
	case o.MaxPlaintext < 0 || o.MaxPlaintext > HardMaxPlaintext:
		return o, &OptionError{"MaxPlaintext", fmt.Sprintf("is %d: it must be between 1 and %d bytes", o.MaxPlaintext, HardMaxPlaintext)}
	}
	return o, nil
}

// Codec seals contents into tokens and opens them. It is safe for concurrent
// use.
type Codec struct {
	options Options
	keys    atomic.Pointer[Keyset]
	zstd    *compressor
	buffers sync.Pool // of *buffers
}

// buffers are the scratch memory of one Seal or Open.
type buffers struct {
	plain, sealed, text, associated []byte
}

// ErrNoKeyset is returned by [New] if it is given no keyset.
var ErrNoKeyset = errors.New("codec: no keyset: create one with NewKeyset, or load one with LoadKeyset")

// New returns a codec that seals with the primary key of keys and opens with
// every enabled one. It fails with [ErrNoKeyset] or an *[OptionError].
func New(keys *Keyset, o Options) (*Codec, error) {
	if keys == nil {
		return nil, ErrNoKeyset
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	z, err := newCompressor(o.MaxPlaintext)
	if err != nil {
		return nil, fmt.Errorf("codec: %w", err)
	}
	c := &Codec{options: o, zstd: z}
	c.buffers.New = func() any { return new(buffers) }
	c.keys.Store(keys)
	return c, nil
}

// SetKeyset replaces the keyset while the codec is in use: every call that
// starts afterwards uses k. A nil k is ignored.
func (c *Codec) SetKeyset(k *Keyset) {
	if k != nil {
		c.keys.Store(k)
	}
}

// Keyset returns the keyset in use.
func (c *Codec) Keyset() *Keyset { return c.keys.Load() }

// Options returns the options in use, with defaults filled in.
func (c *Codec) Options() Options { return c.options }

// maxPooled is the largest buffer worth keeping, in bytes.
const maxPooled = 256 << 10

// release clears what b held and returns it to the pool.
func (c *Codec) release(b *buffers) {
	// Plaintext, compressed or not, must not linger in memory that the next
	// caller can get hold of.
	clear(b.plain)
	clear(b.sealed)
	clear(b.text)
	if cap(b.plain)+cap(b.sealed)+cap(b.text) <= maxPooled {
		c.buffers.Put(b)
	}
}
