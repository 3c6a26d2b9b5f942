package tokens_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

// The tests in this file go to every bound, and one step beyond.

// noise returns bytes that do not compress.
func noise(n int) []byte {
	var b []byte
	for i := byte(0); len(b) < n; i++ {
		sum := sha256.Sum256([]byte{i, byte(len(b)), byte(len(b) >> 8)})
		b = append(b, sum[:]...)
	}
	return b[:n]
}

func TestBoundsOfTimes(t *testing.T) {
	const tick = time.Nanosecond
	issued, expires, deadline := noon, noon.Add(10*time.Minute), noon.Add(5*time.Minute)
	keys := newKeyset(t)
	for _, skew := range []time.Duration{0, 7 * time.Second, -1} {
		c := newCodec(t, keys, tokens.Options{Skew: skew})
		granted := c.Options().Skew
		x := sample("{}")
		x.Claims.Deadline = time.Time{}
		short := sample("{}")
		short.Claims.Deadline = deadline
		for name, tt := range map[string]struct {
			x      *tokens.Contents
			now    time.Time
			reason tokens.Reason // zero: it opens
		}{
			"as early as can be":     {x, issued.Add(-granted), ""},
			"too early":              {x, issued.Add(-granted - tick), tokens.ReasonNotYetValid},
			"as late as can be":      {x, expires.Add(granted - tick), ""},
			"expired":                {x, expires.Add(granted), tokens.ReasonExpired},
			"just before the end":    {short, deadline.Add(granted - tick), ""},
			"deadline":               {short, deadline.Add(granted), tokens.ReasonDeadline},
			"deadline and expired":   {short, expires.Add(granted), tokens.ReasonDeadline},
			"early, with a deadline": {short, issued.Add(-granted - tick), tokens.ReasonNotYetValid},
		} {
			t.Run(fmt.Sprintf("%v %s", skew, name), func(t *testing.T) {
				token := seal(t, c, alice, tt.x)
				got, err := c.Open(alice, tt.now, token)
				whenever, untimely, anyTime := c.OpenAnyTime(alice, tt.now, token)
				require.NoError(t, anyTime)
				require.Equal(t, tt.x.Claims, whenever.Claims)
				require.Equal(t, "{}", string(whenever.State))
				if tt.reason == "" {
					require.NoError(t, err)
					require.Equal(t, &whenever, got)
					require.Nil(t, untimely)
					return
				}
				require.Nil(t, got)
				requireRejected(t, err, tt.reason)
				require.NotNil(t, untimely)
				require.Equal(t, tt.reason, untimely.Reason)
			})
		}
	}
}

// Only the time may be wrong with what is opened at any time.
func TestOpenAnyTimeRefuses(t *testing.T) {
	keys := newKeyset(t)
	c := newCodec(t, keys, tokens.Options{})
	token := seal(t, c, alice, sample(smallState))
	for _, now := range []time.Time{noon.Add(-time.Hour), noon, noon.Add(time.Hour)} {
		x, untimely, err := c.OpenAnyTime(tokens.Binding{}, now, token)
		require.Zero(t, x)
		require.Nil(t, untimely)
		requireRejected(t, err, tokens.ReasonAuthentication)
		x, untimely, err = newCodec(t, keys, tokens.Options{MaxPlaintext: 10}).OpenAnyTime(alice, now, token)
		require.Zero(t, x)
		require.Nil(t, untimely)
		requireRejected(t, err, tokens.ReasonTooLarge)
	}
}

func TestBoundsOfClaims(t *testing.T) {
	c := newCodec(t, newKeyset(t), tokens.Options{})
	last := time.Unix(1<<32-1, 0).UTC()
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }
	for name, tt := range map[string]struct {
		fits, exceeds tokens.Claims
		names         string // in the error
	}{
		"tool":     {tokens.Claims{Tool: strings.Repeat("x", 255)}, tokens.Claims{Tool: strings.Repeat("x", 256)}, "tool"},
		"request":  {tokens.Claims{Request: noise(32)}, tokens.Claims{Request: noise(33)}, "request"},
		"trace":    {tokens.Claims{Trace: noise(26)}, tokens.Claims{Trace: noise(27)}, "trace"},
		"first":    {tokens.Claims{IssuedAt: at(0), ExpiresAt: last}, tokens.Claims{IssuedAt: at(-1), ExpiresAt: last}, "IssuedAt"},
		"last":     {tokens.Claims{IssuedAt: last, ExpiresAt: last, Deadline: last}, tokens.Claims{IssuedAt: at(1 << 32), ExpiresAt: at(1 << 32)}, "IssuedAt"},
		"expiry":   {tokens.Claims{ExpiresAt: last}, tokens.Claims{ExpiresAt: at(1 << 32)}, "ExpiresAt"},
		"end":      {tokens.Claims{Deadline: last}, tokens.Claims{Deadline: at(1 << 32)}, "Deadline"},
		"at once":  {tokens.Claims{ExpiresAt: noon}, tokens.Claims{ExpiresAt: noon.Add(-time.Second)}, "ExpiresAt"},
		"no time":  {tokens.Claims{ExpiresAt: last, Deadline: noon}, tokens.Claims{ExpiresAt: last, Deadline: noon.Add(-time.Second)}, "Deadline"},
		"counters": {tokens.Claims{Turn: 1<<32 - 1, Revision: 1<<32 - 1}, tokens.Claims{Tool: strings.Repeat("x", 1<<20)}, "tool"},
	} {
		t.Run(name, func(t *testing.T) {
			token, err := c.Seal(alice, noon, &tokens.Contents{Claims: tt.fits})
			require.NoError(t, err)
			got, _, err := c.OpenAnyTime(alice, noon, token)
			require.NoError(t, err)
			require.Equal(t, tt.fits.Tool, got.Claims.Tool)
			require.Equal(t, tt.fits.Request, got.Claims.Request)
			require.Equal(t, tt.fits.Trace, got.Claims.Trace)
			for _, times := range [][2]time.Time{{tt.fits.IssuedAt, got.Claims.IssuedAt}, {tt.fits.ExpiresAt, got.Claims.ExpiresAt}, {tt.fits.Deadline, got.Claims.Deadline}} {
				if !times[0].IsZero() {
					require.Equal(t, times[0], times[1])
				}
			}
			_, err = c.Seal(alice, noon, &tokens.Contents{Claims: tt.exceeds})
			require.ErrorContains(t, err, tt.names)
		})
	}
}

func TestBoundsOfContents(t *testing.T) {
	const limit = 4000
	keys := newKeyset(t)
	c := newCodec(t, keys, tokens.Options{MaxPlaintext: limit})
	large := newCodec(t, keys, tokens.Options{}) // seals more than c opens
	words := bytes.Repeat([]byte("to be or not to be, "), 1000)
	for name, make := range map[string]func(n int) ([]byte, []byte){
		"raw state":                   func(n int) ([]byte, []byte) { return noise(n), nil },
		"compressed state":            func(n int) ([]byte, []byte) { return words[:n], nil },
		"secret":                      func(n int) ([]byte, []byte) { return nil, noise(n) },
		"raw state and secret":        func(n int) ([]byte, []byte) { return noise(n - 100), noise(100) },
		"compressed state and secret": func(n int) ([]byte, []byte) { return words[:n-100], noise(100) },
		"secret and a little state":   func(n int) ([]byte, []byte) { return []byte("{}"), noise(n - 2) },
	} {
		t.Run(name, func(t *testing.T) {
			x := sample("")
			x.State, x.Secret = make(limit)
			got, err := c.Open(alice, noon, seal(t, c, alice, x))
			require.NoError(t, err)
			require.Equal(t, string(x.State), string(got.State))
			require.Equal(t, string(x.Secret), string(got.Secret))

			x.State, x.Secret = make(limit + 1)
			_, err = c.Seal(alice, noon, x)
			require.Equal(t, &tokens.TooLargeError{What: "contents", Size: limit + 1, Limit: limit}, err)
			_, err = c.Open(alice, noon, seal(t, large, alice, x))
			var rejected *tokens.Rejected
			require.ErrorAs(t, err, &rejected)
			require.Contains(t, []tokens.Reason{tokens.ReasonTooLarge, tokens.ReasonFormat}, rejected.Reason)
		})
	}
}

func TestBoundsOfTokens(t *testing.T) {
	for _, kind := range codec.KeyTypes() {
		keys, err := codec.NewKeyset(kind)
		require.NoError(t, err)
		x := sample(smallState)
		token := seal(t, newCodec(t, keys, tokens.Options{}), alice, x)
		n := len(token)

		fits := newCodec(t, keys, tokens.Options{MaxToken: n})
		require.Len(t, seal(t, fits, alice, x), n)
		_, err = fits.Open(alice, noon, token)
		require.NoError(t, err)

		exceeds := newCodec(t, keys, tokens.Options{MaxToken: n - 1})
		_, err = exceeds.Seal(alice, noon, x)
		require.Equal(t, &tokens.TooLargeError{What: "token", Size: n, Limit: n - 1}, err)
		_, err = exceeds.Open(alice, noon, token)
		requireRejected(t, err, tokens.ReasonTooLong)
	}
	// The shortest that a key could have sealed, and the longest that is looked into.
	spelt := func(sealed int) string { return "1" + base64.RawURLEncoding.EncodeToString(make([]byte, sealed)) }
	for token, reason := range map[string]tokens.Reason{
		spelt(20): tokens.ReasonMalformed,
		spelt(21): tokens.ReasonUnknownKey,
		"1" + strings.Repeat("A", tokens.HardMaxToken-1): tokens.ReasonUnknownKey,
		"1" + strings.Repeat("A", tokens.HardMaxToken):   tokens.ReasonTooLong,
	} {
		_, err := newCodec(t, newKeyset(t), tokens.Options{MaxToken: tokens.HardMaxToken}).Open(alice, noon, token)
		requireRejected(t, err, reason)
	}
}

func TestBoundsOfOptions(t *testing.T) {
	keys := newKeyset(t)
	for name, tt := range map[string]struct {
		fit, exceed []tokens.Options
	}{
		"TTL": {[]tokens.Options{{TTL: time.Second}}, []tokens.Options{{TTL: time.Second - 1}, {TTL: -1}}},
		"MaxToken": {[]tokens.Options{{MaxToken: 1}, {MaxToken: tokens.HardMaxToken}},
			[]tokens.Options{{MaxToken: -1}, {MaxToken: tokens.HardMaxToken + 1}}},
		"MaxPlaintext": {[]tokens.Options{{MaxPlaintext: 1}, {MaxPlaintext: tokens.HardMaxPlaintext}},
			[]tokens.Options{{MaxPlaintext: -1}, {MaxPlaintext: tokens.HardMaxPlaintext + 1}}},
	} {
		for _, o := range tt.fit {
			_, err := tokens.New(keys, o)
			require.NoError(t, err, "%+v", o)
		}
		for _, o := range tt.exceed {
			_, err := tokens.New(keys, o)
			require.ErrorContains(t, err, "Options."+name+" ", "%+v", o)
		}
	}
}

// Operators plan with these numbers, and the documents name them.
func TestDefaultLimits(t *testing.T) {
	require.Equal(t, 65536, tokens.DefaultMaxToken)
	require.Equal(t, 131072, tokens.HardMaxToken)
	require.Equal(t, 262144, tokens.DefaultMaxPlaintext)
	require.Equal(t, 4194304, tokens.HardMaxPlaintext)
}
