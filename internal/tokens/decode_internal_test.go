package tokens

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
)

// mint seals a plaintext that Seal would never write: what somebody could do who
// has the keys, or a faulty release.
func mint(t testing.TB, c *Codec, plain []byte) string {
	t.Helper()
	sealed, err := c.Keyset().Encrypt(plain, Binding{}.associated(nil, version, c.options.Audience))
	require.NoError(t, err)
	return "1" + encoding.EncodeToString(sealed)
}

func mintingCodec(t testing.TB, o Options) *Codec {
	t.Helper()
	k, err := codec.NewKeyset()
	require.NoError(t, err)
	c, err := New(k, o)
	require.NoError(t, err)
	return c
}

// front is the part of a plaintext before the body.
func front(coding byte) []byte {
	now := time.Unix(1_800_000_000, 0)
	return appendClaims(nil, coding, &Claims{IssuedAt: now, ExpiresAt: now.Add(time.Hour), Tool: "t"}, nil)
}

var mintedAt = time.Unix(1_800_000_000, 0)

func TestOpenRefusesForeignLayouts(t *testing.T) {
	c := mintingCodec(t, Options{})
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	mark := []byte{paddingMark}
	flagged := func(flag byte, more ...byte) []byte {
		b := front(codingRaw)
		b[0] |= flag
		return append(b, more...)
	}
	for name, plain := range map[string][]byte{
		"nothing":            {},
		"only flags":         {0},
		"only times":         front(codingRaw)[:7],
		"no padding":         front(codingRaw),
		"only zeros":         join(front(codingRaw), make([]byte, 9)),
		"padding not zero":   join(front(codingRaw), mark, []byte{0, 1, 0}),
		"unknown coding":     join(front(5), []byte("state"), mark),
		"empty secret":       join(flagged(flagSecret, 0), mark),
		"empty parts":        join(flagged(flagParts, 0, 0), mark),
		"part cut off":       join(flagged(flagParts, 0), mark),
		"apart too long":     join(flagged(flagParts, 9<<codingBits, 0), mark),
		"plain too long":     join(flagged(flagParts, 0, 9), mark),
		"unknown part":       join(flagged(flagParts, 1<<codingBits|3, 'x', 0), mark),
		"part not zstd":      join(flagged(flagParts, 4<<codingBits|codingZstd, 20, 'x', 'y', 'z', 0), mark),
		"secret too long":    join(flagged(flagSecret, 200), mark),
		"request too long":   join(flagged(flagRequest, 33), make([]byte, 33), mark),
		"trace too long":     join(flagged(flagTrace, 27), make([]byte, 27), mark),
		"tool too long":      join(appendClaims(nil, codingRaw, &Claims{IssuedAt: mintedAt, ExpiresAt: mintedAt.Add(time.Hour), Tool: strings.Repeat("t", MaxTool+1)}, nil), mark),
		"a second too late":  join([]byte{0, 0xff, 0xff, 0xff, 0xff, 2}, make([]byte, 19), mark),
		"endless varint":     join(flagged(flagTrace, bytes.Repeat([]byte{0xff}, 12)...), mark),
		"huge length":        join(binary.AppendUvarint(flagged(flagSecret), 1<<63), mark),
		"no size":            join(front(codingZstd), mark),
		"size zero":          join(front(codingZstd), []byte{0, 1, 2}, mark),
		"not zstd":           join(front(codingZstd), []byte{20, 'x', 'y', 'z'}, mark),
		"empty block":        join(front(codingDict1), []byte{21}, mark),
		"not deflate":        join(front(codingFlate), []byte{20, 'x', 'y', 'z'}, mark),
		"nothing deflated":   join(front(codingFlate), []byte{20}, mark),
		"deflate, no size":   join(front(codingFlate), mark),
		"time past the end":  join([]byte{0, 0xff, 0xff, 0xff, 0xff, 3}, make([]byte, 19), mark),
		"deadline cut":       {flagDeadline, 0, 0, 0, 0, 1},
		"span out of bounds": join([]byte{0, 0, 0, 0, 0}, bytes.Repeat([]byte{0xff}, 9), []byte{1}, make([]byte, 19), mark),
	} {
		t.Run(name, func(t *testing.T) {
			token := mint(t, c, plain)
			_, err := c.Open(Binding{}, mintedAt, token)
			require.ErrorIs(t, err, ErrRejected)
			require.Equal(t, ReasonFormat, err.(*Rejected).Reason, "%v", err.(*Rejected).Detail)
			require.Equal(t, ReasonFormat, c.Explain(Binding{}, mintedAt, token, nil).Reason)
		})
	}
	x, err := c.Open(Binding{}, mintedAt, mint(t, c, join(front(codingRaw), []byte("state"), mark, make([]byte, 40))))
	require.NoError(t, err)
	require.Equal(t, "state", string(x.State))
}

// bomb returns a plaintext whose body claims to hold claimed bytes and really
// expands to so many zeros.
func bomb(t testing.TB, claimed, real int) []byte {
	t.Helper()
	e, err := zstd.NewWriter(nil, zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true), zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	frame := e.EncodeAll(make([]byte, real), nil)
	var h zstd.Header
	require.NoError(t, h.Decode(frame))
	plain := binary.AppendUvarint(front(codingZstd), uint64(claimed)<<1)
	return append(append(plain, frame[h.HeaderSize:]...), paddingMark)
}

func TestDecompressionIsBounded(t *testing.T) {
	const limit = 64 << 10
	c := mintingCodec(t, Options{MaxPlaintext: limit})
	for name, tt := range map[string]struct {
		plain  []byte
		reason Reason
	}{
		"honest":             {bomb(t, 64<<20, 64<<20), ReasonTooLarge},
		"liar":               {bomb(t, limit, 64<<20), ReasonFormat},
		"overstate":          {bomb(t, limit, 10), ReasonFormat},
		"just over":          {bomb(t, limit+1, limit+1), ReasonTooLarge},
		"deflate, honest":    {deflateBomb(t, c, 16<<20, 16<<20), ReasonTooLarge},
		"deflate, liar":      {deflateBomb(t, c, limit, 16<<20), ReasonFormat},
		"deflate, overstate": {deflateBomb(t, c, limit, 10), ReasonFormat},
		"deflate, just over": {deflateBomb(t, c, limit+1, limit+1), ReasonTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			token := mint(t, c, tt.plain)
			_, err := c.Open(Binding{}, mintedAt, token) // warm the pools
			require.ErrorIs(t, err, ErrRejected)
			require.Equal(t, tt.reason, err.(*Rejected).Reason)

			const rounds = 50
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			for range rounds {
				_, _ = c.Open(Binding{}, mintedAt, token)
			}
			runtime.ReadMemStats(&after)
			require.Less(t, (after.TotalAlloc-before.TotalAlloc)/rounds, uint64(4*limit+len(token)*4), "bytes per token")
		})
	}
	_, err := c.Open(Binding{}, mintedAt, mint(t, c, bomb(t, limit, limit)))
	require.NoError(t, err)
	_, err = c.Open(Binding{}, mintedAt, mint(t, c, deflateBomb(t, c, limit, limit)))
	require.NoError(t, err)
}

// deflateBomb is bomb for what is deflated.
func deflateBomb(t testing.TB, c *Codec, claimed, real int) []byte {
	t.Helper()
	plain, ok := c.zstd.deflate(binary.AppendUvarint(front(codingFlate), uint64(claimed)<<1), make([]byte, real))
	require.True(t, ok)
	return append(plain, paddingMark)
}

// The parts share the limit: two that are allowed each may be too much together.
func TestDecompressionOfPartsIsBounded(t *testing.T) {
	const limit = 4 << 10
	c := mintingCodec(t, Options{MaxPlaintext: limit})
	text := func(n int) []byte { return []byte(strings.Repeat("x", n)) }
	plaintext := func(state, apart, plain int) []byte {
		coding, body := c.zstd.encode(new(buffers), text(state))
		partCoding, part := c.zstd.encode(new(buffers), text(apart))
		b := appendParts(front(coding), partCoding, part, text(plain))
		return append(append(b, body...), paddingMark)
	}
	for _, test := range []struct {
		state, apart, plain int
		ok                  bool
	}{
		{2048, 1024, 1024, true}, {2049, 1024, 1024, false}, {2048, 1025, 1024, false}, {2048, 1024, 1025, false},
		{1024, limit, 0, false}, {0, limit + 1, 0, false}, {0, limit, 0, true}, {0, 0, limit, true}, {0, 1024, limit, false},
	} {
		_, err := c.Open(Binding{}, mintedAt, mint(t, c, plaintext(test.state, test.apart, test.plain)))
		var rejected *Rejected
		if test.ok {
			require.NoError(t, err, "%v", test)
		} else {
			require.ErrorAs(t, err, &rejected, "%v", test)
			require.Equal(t, ReasonTooLarge, rejected.Reason, "%v: %v", test, rejected.Detail)
		}
		_, err = c.Seal(Binding{}, mintedAt, &Contents{Claims: Claims{Tool: "t"}, State: text(test.state), Apart: text(test.apart), Plain: text(test.plain)})
		require.Equal(t, test.ok, err == nil, "sealing has the same limit: %v", err)
	}
}

func TestBlocksAreNotAcceptedBeyondTheirSize(t *testing.T) {
	c := mintingCodec(t, Options{})
	// A second frame after the first is trailing garbage, even if it is empty.
	z := c.zstd
	_, body := z.encode(new(buffers), []byte(strings.Repeat("abc", 50_000)))
	require.Zero(t, body[0]&1, "several blocks")
	empty := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0}
	skippable := []byte{0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 'x'}
	for _, extra := range [][]byte{{'x'}, empty, skippable} {
		plain := append(append(front(codingZstd), body...), extra...)
		_, err := c.Open(Binding{}, mintedAt, mint(t, c, append(plain, paddingMark)))
		require.ErrorIs(t, err, ErrRejected, "%x", extra)

		deflated := deflateBomb(t, c, 100, 100)
		deflated = append(append(deflated[:len(deflated)-1], extra...), paddingMark)
		_, err = c.Open(Binding{}, mintedAt, mint(t, c, deflated))
		require.ErrorIs(t, err, ErrRejected, "%x", extra)
	}
}

// What is deflated says nothing of what was before it.
func TestDeflatingDoesNotDependOnEarlierStates(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var states [][]byte
	for _, alphabet := range []string{"ab", "abcdefghijklmnopqrstuvwxyz ", `{"action":"accept",}`} {
		state := make([]byte, maxThorough)
		for i := range state {
			state[i] = alphabet[random.IntN(len(alphabet))]
		}
		states = append(states, state, append(bytes.Repeat(state[:9000], 3), state...)[:maxShort+1])
	}
	used := mintingCodec(t, Options{}).zstd
	for range 2 {
		for _, state := range states {
			coding, want := mintingCodec(t, Options{}).zstd.encode(new(buffers), state)
			require.Equal(t, byte(codingFlate), coding)
			_, got := used.encode(new(buffers), state)
			require.Equal(t, want, got)
			opened, rejected := used.decode(new(buffers), coding, got, len(state))
			require.Nil(t, rejected)
			require.Equal(t, state, opened)
		}
	}
}

func FuzzDecodePlaintext(f *testing.F) {
	c := mintingCodec(f, Options{MaxPlaintext: 1 << 16})
	for _, state := range []string{"", "x", strings.Repeat(`{"action":"accept","content":{}}`, 20), strings.Repeat("y", 20_000)} {
		buf := new(buffers)
		coding, body := c.zstd.encode(buf, []byte(state))
		f.Add(append(append(front(coding), body...), paddingMark))
		f.Add(append(append(appendParts(front(codingRaw), coding, bytes.Clone(body), []byte(state)), "body"...), paddingMark))
	}
	f.Add(bomb(f, 1<<16, 1<<20))
	f.Fuzz(func(t *testing.T, plain []byte) {
		x, err := c.Open(Binding{}, mintedAt, mint(t, c, plain))
		if err != nil {
			require.ErrorIs(t, err, ErrRejected)
			return
		}
		require.LessOrEqual(t, len(x.State)+len(x.Apart)+len(x.Plain)+len(x.Secret), 1<<16)
		token, err := c.Seal(Binding{}, mintedAt, x)
		require.NoError(t, err, "what opens can be sealed")
		again, err := c.Open(Binding{}, mintedAt, token)
		require.NoError(t, err)
		require.Equal(t, x.Claims, again.Claims)
		require.Equal(t, string(x.State), string(again.State))
		require.Equal(t, string(x.Apart), string(again.Apart))
		require.Equal(t, string(x.Plain), string(again.Plain))
		require.Equal(t, string(x.Secret), string(again.Secret))
	})
}
