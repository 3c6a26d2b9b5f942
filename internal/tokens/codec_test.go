package tokens_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

func TestSealOpen(t *testing.T) {
	random := bytes.Repeat([]byte{0, 0x80, 0xff, 7}, 3)
	tests := map[string]func(*tokens.Contents){
		"all claims":      func(x *tokens.Contents) { x.Claims.Request, x.Claims.Trace = random, make([]byte, 26) },
		"no deadline":     func(x *tokens.Contents) { x.Claims.Deadline = time.Time{} },
		"odd seconds":     func(x *tokens.Contents) { x.Claims.ExpiresAt = noon.Add(61 * time.Second) },
		"no state":        func(x *tokens.Contents) { x.State = nil },
		"zero bytes":      func(x *tokens.Contents) { x.State = make([]byte, 5) },
		"ends like pad":   func(x *tokens.Contents) { x.State = []byte{1, 0x80, 0, 0} },
		"incompressible":  func(x *tokens.Contents) { x.State = random },
		"one byte run":    func(x *tokens.Contents) { x.State = bytes.Repeat([]byte{'a'}, 5000) },
		"secret":          func(x *tokens.Contents) { x.Secret = []byte("s3cret\x00\x00") },
		"only secret":     func(x *tokens.Contents) { x.State, x.Secret = nil, random },
		"small":           func(x *tokens.Contents) { x.State = []byte(smallState) },
		"medium":          func(x *tokens.Contents) { x.State = []byte(mediumState) },
		"large":           func(x *tokens.Contents) { x.State = []byte(largeState) },
		"several blocks":  func(x *tokens.Contents) { x.State = []byte(strings.Repeat(smallState, 800)) },
		"zero claims":     func(x *tokens.Contents) { x.Claims = tokens.Claims{IssuedAt: noon, ExpiresAt: noon} },
		"largest numbers": func(x *tokens.Contents) { x.Claims.Turn, x.Claims.Revision = 1<<32-1, 1<<32-1 },
		"longest tool":    func(x *tokens.Contents) { x.Claims.Tool = strings.Repeat("é", 127) },
		"end of time":     func(x *tokens.Contents) { x.Claims.Deadline = time.Unix(1<<32-1, 0).UTC() },
	}
	keys := map[codec.KeyType]*codec.Keyset{}
	for _, kt := range codec.KeyTypes() {
		k, err := codec.NewKeyset(kt)
		require.NoError(t, err)
		keys[kt] = k
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			for _, k := range keys {
				c := newCodec(t, k, tokens.Options{Audience: "here"})
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
	c := newCodec(t, newKeyset(t), tokens.Options{TTL: 5 * time.Minute})
	now := noon.Add(250 * time.Millisecond)
	for name, tt := range map[string]struct {
		in                       tokens.Claims
		issued, expires, overall time.Time
	}{
		"nothing set":    {tokens.Claims{}, noon, noon.Add(5 * time.Minute), time.Time{}},
		"near deadline":  {tokens.Claims{Deadline: noon.Add(time.Minute)}, noon, noon.Add(time.Minute), noon.Add(time.Minute)},
		"far deadline":   {tokens.Claims{Deadline: noon.Add(time.Hour)}, noon, noon.Add(5 * time.Minute), noon.Add(time.Hour)},
		"earlier issued": {tokens.Claims{IssuedAt: noon.Add(-time.Minute)}, noon.Add(-time.Minute), noon.Add(4 * time.Minute), time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			x := &tokens.Contents{Claims: tt.in}
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
	c := newCodec(t, newKeyset(t), tokens.Options{MaxToken: 1000, MaxPlaintext: 4000})
	noise := make([]byte, 1500)
	for i := range noise {
		noise[i] = byte(i * i * 31 >> 3)
	}
	for name, tt := range map[string]struct {
		change func(*tokens.Contents)
		want   string
	}{
		"contents":    {func(x *tokens.Contents) { x.State, x.Secret = make([]byte, 3000), make([]byte, 1001) }, "contents of 4001 bytes exceeds the limit of 4000: keep less in the state"},
		"token":       {func(x *tokens.Contents) { x.Secret = noise }, "characters exceeds the limit of 1000: keep less in the state"},
		"tool":        {func(x *tokens.Contents) { x.Claims.Tool = strings.Repeat("x", 256) }, "tool of 256 bytes exceeds the limit of 255: shorten it"},
		"request":     {func(x *tokens.Contents) { x.Claims.Request = make([]byte, 33) }, "request of 33 bytes"},
		"trace":       {func(x *tokens.Contents) { x.Claims.Trace = make([]byte, 27) }, "trace of 27 bytes"},
		"too early":   {func(x *tokens.Contents) { x.Claims.IssuedAt = time.Unix(-1, 0) }, "claim IssuedAt is"},
		"too late":    {func(x *tokens.Contents) { x.Claims.Deadline = time.Unix(1<<32, 0) }, "claim Deadline is"},
		"expired":     {func(x *tokens.Contents) { x.Claims.ExpiresAt = noon.Add(-time.Second) }, "claim ExpiresAt is"},
		"no deadline": {func(x *tokens.Contents) { x.Claims.Deadline = noon.Add(-time.Second) }, "before the token is issued"},
	} {
		t.Run(name, func(t *testing.T) {
			x := sample("{}")
			tt.change(x)
			_, err := c.Seal(alice, noon, x)
			require.ErrorContains(t, err, tt.want)
			var tooLarge *tokens.TooLargeError
			require.Equal(t, strings.Contains(tt.want, "limit") || strings.Contains(tt.want, "bytes"), errors.As(err, &tooLarge), "%T", err)
		})
	}
	_, err := c.Seal(alice, noon, nil)
	require.Error(t, err)
}

func TestNewRefuses(t *testing.T) {
	_, err := tokens.New(nil, tokens.Options{})
	require.ErrorContains(t, err, "no keyset: create one with codec.NewKeyset")
	for name, o := range map[string]tokens.Options{
		"TTL":          {TTL: time.Millisecond},
		"MaxToken":     {MaxToken: tokens.HardMaxToken + 1},
		"MaxPlaintext": {MaxPlaintext: -1},
	} {
		_, err := tokens.New(newKeyset(t), o)
		require.ErrorContains(t, err, "Options."+name)
	}
}

func TestOptionsDefaults(t *testing.T) {
	o := newCodec(t, newKeyset(t), tokens.Options{}).Options()
	require.Equal(t, tokens.Options{TTL: tokens.DefaultTTL, Skew: tokens.DefaultSkew, MaxToken: 64 << 10, MaxPlaintext: 256 << 10}, o)
	require.Zero(t, newCodec(t, newKeyset(t), tokens.Options{Skew: -1}).Options().Skew)
}
