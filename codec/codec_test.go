package codec_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
)

func TestSealOpen(t *testing.T) {
	random := bytes.Repeat([]byte{0, 0x80, 0xff, 7}, 3)
	tests := map[string]func(*codec.Contents){
		"all claims":      func(x *codec.Contents) { x.Claims.Request, x.Claims.Trace = random, make([]byte, 26) },
		"no deadline":     func(x *codec.Contents) { x.Claims.Deadline = time.Time{} },
		"odd seconds":     func(x *codec.Contents) { x.Claims.ExpiresAt = noon.Add(61 * time.Second) },
		"no state":        func(x *codec.Contents) { x.State = nil },
		"zero bytes":      func(x *codec.Contents) { x.State = make([]byte, 5) },
		"ends like pad":   func(x *codec.Contents) { x.State = []byte{1, 0x80, 0, 0} },
		"incompressible":  func(x *codec.Contents) { x.State = random },
		"one byte run":    func(x *codec.Contents) { x.State = bytes.Repeat([]byte{'a'}, 5000) },
		"secret":          func(x *codec.Contents) { x.Secret = []byte("s3cret\x00\x00") },
		"only secret":     func(x *codec.Contents) { x.State, x.Secret = nil, random },
		"small":           func(x *codec.Contents) { x.State = []byte(smallState) },
		"medium":          func(x *codec.Contents) { x.State = []byte(mediumState) },
		"large":           func(x *codec.Contents) { x.State = []byte(largeState) },
		"several blocks":  func(x *codec.Contents) { x.State = []byte(strings.Repeat(smallState, 800)) },
		"zero claims":     func(x *codec.Contents) { x.Claims = codec.Claims{IssuedAt: noon, ExpiresAt: noon} },
		"largest numbers": func(x *codec.Contents) { x.Claims.Turn, x.Claims.Revision = 1<<32-1, 1<<32-1 },
		"longest tool":    func(x *codec.Contents) { x.Claims.Tool = strings.Repeat("é", 127) },
		"end of time":     func(x *codec.Contents) { x.Claims.Deadline = time.Unix(1<<32-1, 0).UTC() },
	}
	keys := map[codec.KeyType]*codec.Keyset{}
	for _, kt := range codec.KeyTypes() {
		k, err := codec.NewKeysetOf(kt)
		require.NoError(t, err)
		keys[kt] = k
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			for _, k := range keys {
				c := newCodec(t, k, codec.Options{Audience: "here"})
				x := sample(`{"at":"start"}`)
				change(x)
				got, err := c.Open(alice, noon, seal(t, c, alice, x))
				require.NoError(t, err)
				require.Equal(t, x.Claims, got.Claims)
				require.Equal(t, string(x.State), string(got.State))
				require.Equal(t, string(x.Secret), string(got.Secret))
			}
		})
	}
}

func TestSealFillsInTimes(t *testing.T) {
	c := newCodec(t, newKeyset(t), codec.Options{TTL: 5 * time.Minute})
	now := noon.Add(250 * time.Millisecond)
	for name, tt := range map[string]struct {
		in                       codec.Claims
		issued, expires, overall time.Time
	}{
		"nothing set":    {codec.Claims{}, noon, noon.Add(5 * time.Minute), time.Time{}},
		"near deadline":  {codec.Claims{Deadline: noon.Add(time.Minute)}, noon, noon.Add(time.Minute), noon.Add(time.Minute)},
		"far deadline":   {codec.Claims{Deadline: noon.Add(time.Hour)}, noon, noon.Add(5 * time.Minute), noon.Add(time.Hour)},
		"earlier issued": {codec.Claims{IssuedAt: noon.Add(-time.Minute)}, noon.Add(-time.Minute), noon.Add(4 * time.Minute), time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			x := &codec.Contents{Claims: tt.in}
			token, err := c.Seal(alice, now, x)
			require.NoError(t, err)
			require.Equal(t, tt.in, x.Claims, "the argument is not changed")
			got, err := c.Open(alice, now, token)
			require.NoError(t, err)
			require.Equal(t, tt.issued, got.Claims.IssuedAt)
			require.Equal(t, tt.expires, got.Claims.ExpiresAt)
			require.Equal(t, tt.overall, got.Claims.Deadline)
		})
	}
}

func TestSealRefuses(t *testing.T) {
	c := newCodec(t, newKeyset(t), codec.Options{MaxToken: 1000, MaxPlaintext: 4000})
	noise := make([]byte, 1500)
	for i := range noise {
		noise[i] = byte(i * i * 31 >> 3)
	}
	for name, tt := range map[string]struct {
		change func(*codec.Contents)
		want   string
	}{
		"contents":    {func(x *codec.Contents) { x.State, x.Secret = make([]byte, 3000), make([]byte, 1001) }, "contents of 4001 bytes exceeds the limit of 4000: keep less in the state"},
		"token":       {func(x *codec.Contents) { x.Secret = noise }, "characters exceeds the limit of 1000: keep less in the state"},
		"tool":        {func(x *codec.Contents) { x.Claims.Tool = strings.Repeat("x", 256) }, "tool of 256 bytes exceeds the limit of 255: shorten it"},
		"request":     {func(x *codec.Contents) { x.Claims.Request = make([]byte, 33) }, "request of 33 bytes"},
		"trace":       {func(x *codec.Contents) { x.Claims.Trace = make([]byte, 27) }, "trace of 27 bytes"},
		"too early":   {func(x *codec.Contents) { x.Claims.IssuedAt = time.Unix(-1, 0) }, "claim IssuedAt is"},
		"too late":    {func(x *codec.Contents) { x.Claims.Deadline = time.Unix(1<<32, 0) }, "claim Deadline is"},
		"expired":     {func(x *codec.Contents) { x.Claims.ExpiresAt = noon.Add(-time.Second) }, "claim ExpiresAt is"},
		"no deadline": {func(x *codec.Contents) { x.Claims.Deadline = noon.Add(-time.Second) }, "before the token is issued"},
	} {
		t.Run(name, func(t *testing.T) {
			x := sample("{}")
			tt.change(x)
			_, err := c.Seal(alice, noon, x)
			require.ErrorContains(t, err, tt.want)
			var tooLarge *codec.TooLargeError
			var claim *codec.ClaimError
			require.True(t, errors.As(err, &tooLarge) || errors.As(err, &claim), "%T", err)
		})
	}
	_, err := c.Seal(alice, noon, nil)
	require.Error(t, err)
}

func TestNewRefuses(t *testing.T) {
	_, err := codec.New(nil, codec.Options{})
	require.ErrorIs(t, err, codec.ErrNoKeyset)
	for name, o := range map[string]codec.Options{
		"TTL":          {TTL: time.Millisecond},
		"MaxToken":     {MaxToken: codec.HardMaxToken + 1},
		"MaxPlaintext": {MaxPlaintext: -1},
	} {
		_, err := codec.New(newKeyset(t), o)
		var option *codec.OptionError
		require.ErrorAs(t, err, &option)
		require.Equal(t, name, option.Option)
		require.ErrorContains(t, err, "Options."+name)
	}
}

func TestOptionsDefaults(t *testing.T) {
	o := newCodec(t, newKeyset(t), codec.Options{}).Options()
	require.Equal(t, codec.Options{TTL: codec.DefaultTTL, Skew: codec.DefaultSkew, MaxToken: 64 << 10, MaxPlaintext: 256 << 10}, o)
	require.Zero(t, newCodec(t, newKeyset(t), codec.Options{Skew: -1}).Options().Skew)
}
