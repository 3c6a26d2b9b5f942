package codec_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
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
		c := newCodec(t, keys, codec.Options{Skew: skew})
		granted := c.Options().Skew
		x := sample("{}")
		x.Claims.Deadline = time.Time{}
		short := sample("{}")
		short.Claims.Deadline = deadline
		for name, tt := range map[string]struct {
			x      *codec.Contents
			now    time.Time
			reason codec.Reason // zero: it opens
		}{
			"as early as can be":     {x, issued.Add(-granted), 0},
			"too early":              {x, issued.Add(-granted - tick), codec.ReasonNotYetValid},
			"as late as can be":      {x, expires.Add(granted - tick), 0},
			"expired":                {x, expires.Add(granted), codec.ReasonExpired},
			"just before the end":    {short, deadline.Add(granted - tick), 0},
			"deadline":               {short, deadline.Add(granted), codec.ReasonDeadline},
			"deadline and expired":   {short, expires.Add(granted), codec.ReasonDeadline},
			"early, with a deadline": {short, issued.Add(-granted - tick), codec.ReasonNotYetValid},
		} {
			t.Run(fmt.Sprintf("%v %s", skew, name), func(t *testing.T) {
				token := seal(t, c, alice, tt.x)
				got, err := c.Open(alice, tt.now, token)
				whenever, untimely, anyTime := c.OpenAnyTime(alice, tt.now, token)
				require.NoError(t, anyTime)
				require.Equal(t, tt.x.Claims, whenever.Claims)
				require.Equal(t, "{}", string(whenever.State))
				if tt.reason == 0 {
					require.NoError(t, err)
					require.Equal(t, whenever, got)
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
	c := newCodec(t, keys, codec.Options{})
	token := seal(t, c, alice, sample(smallState))
	for _, now := range []time.Time{noon.Add(-time.Hour), noon, noon.Add(time.Hour)} {
		x, untimely, err := c.OpenAnyTime(codec.Binding{}, now, token)
		require.Nil(t, x)
		require.Nil(t, untimely)
		requireRejected(t, err, codec.ReasonAuthentication)
		x, untimely, err = newCodec(t, keys, codec.Options{MaxPlaintext: 10}).OpenAnyTime(alice, now, token)
		require.Nil(t, x)
		require.Nil(t, untimely)
		requireRejected(t, err, codec.ReasonTooLarge)
	}
}

func TestBoundsOfClaims(t *testing.T) {
	c := newCodec(t, newKeyset(t), codec.Options{})
	last := time.Unix(1<<32-1, 0).UTC()
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }
	for name, tt := range map[string]struct {
		fits, exceeds codec.Claims
		names         string // in the error
	}{
		"tool":     {codec.Claims{Tool: strings.Repeat("x", 255)}, codec.Claims{Tool: strings.Repeat("x", 256)}, "tool"},
		"request":  {codec.Claims{Request: noise(32)}, codec.Claims{Request: noise(33)}, "request"},
		"trace":    {codec.Claims{Trace: noise(26)}, codec.Claims{Trace: noise(27)}, "trace"},
		"first":    {codec.Claims{IssuedAt: at(0), ExpiresAt: last}, codec.Claims{IssuedAt: at(-1), ExpiresAt: last}, "IssuedAt"},
		"last":     {codec.Claims{IssuedAt: last, ExpiresAt: last, Deadline: last}, codec.Claims{IssuedAt: at(1 << 32), ExpiresAt: at(1 << 32)}, "IssuedAt"},
		"expiry":   {codec.Claims{ExpiresAt: last}, codec.Claims{ExpiresAt: at(1 << 32)}, "ExpiresAt"},
		"end":      {codec.Claims{Deadline: last}, codec.Claims{Deadline: at(1 << 32)}, "Deadline"},
		"at once":  {codec.Claims{ExpiresAt: noon}, codec.Claims{ExpiresAt: noon.Add(-time.Second)}, "ExpiresAt"},
		"no time":  {codec.Claims{ExpiresAt: last, Deadline: noon}, codec.Claims{ExpiresAt: last, Deadline: noon.Add(-time.Second)}, "Deadline"},
		"counters": {codec.Claims{Turn: 1<<32 - 1, Revision: 1<<32 - 1}, codec.Claims{Tool: strings.Repeat("x", 1<<20)}, "tool"},
	} {
		t.Run(name, func(t *testing.T) {
			token, err := c.Seal(alice, noon, &codec.Contents{Claims: tt.fits})
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
			_, err = c.Seal(alice, noon, &codec.Contents{Claims: tt.exceeds})
			require.ErrorContains(t, err, tt.names)
		})
	}
}

func TestBoundsOfContents(t *testing.T) {
	const limit = 4000
	keys := newKeyset(t)
	c := newCodec(t, keys, codec.Options{MaxPlaintext: limit})
	large := newCodec(t, keys, codec.Options{}) // seals more than c opens
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
			require.Equal(t, &codec.TooLargeError{What: "contents", Size: limit + 1, Limit: limit}, err)
			_, err = c.Open(alice, noon, seal(t, large, alice, x))
			var rejected *codec.Rejected
			require.ErrorAs(t, err, &rejected)
			require.Contains(t, []codec.Reason{codec.ReasonTooLarge, codec.ReasonFormat}, rejected.Reason)
		})
	}
}

func TestBoundsOfTokens(t *testing.T) {
	for _, kind := range codec.KeyTypes() {
		keys, err := codec.NewKeysetOf(kind)
		require.NoError(t, err)
		x := sample(smallState)
		token := seal(t, newCodec(t, keys, codec.Options{}), alice, x)
		n := len(token)

		fits := newCodec(t, keys, codec.Options{MaxToken: n})
		require.Len(t, seal(t, fits, alice, x), n)
		_, err = fits.Open(alice, noon, token)
		require.NoError(t, err)

		exceeds := newCodec(t, keys, codec.Options{MaxToken: n - 1})
		_, err = exceeds.Seal(alice, noon, x)
		require.Equal(t, &codec.TooLargeError{What: "token", Size: n, Limit: n - 1}, err)
		_, err = exceeds.Open(alice, noon, token)
		requireRejected(t, err, codec.ReasonTooLong)
	}
	// The shortest that a key could have sealed, and the longest that is looked into.
	spelt := func(sealed int) string { return "1" + base64.RawURLEncoding.EncodeToString(make([]byte, sealed)) }
	for token, reason := range map[string]codec.Reason{
		spelt(20): codec.ReasonMalformed,
		spelt(21): codec.ReasonUnknownKey,
		"1" + strings.Repeat("A", codec.HardMaxToken-1): codec.ReasonUnknownKey,
		"1" + strings.Repeat("A", codec.HardMaxToken):   codec.ReasonTooLong,
	} {
		_, err := codec.Inspect(token)
		requireRejected(t, err, reason)
	}
}

func TestBoundsOfOptions(t *testing.T) {
	keys := newKeyset(t)
	for name, tt := range map[string]struct {
		fit, exceed []codec.Options
	}{
		"TTL": {[]codec.Options{{TTL: time.Second}}, []codec.Options{{TTL: time.Second - 1}, {TTL: -1}}},
		"MaxToken": {[]codec.Options{{MaxToken: 1}, {MaxToken: codec.HardMaxToken}},
			[]codec.Options{{MaxToken: -1}, {MaxToken: codec.HardMaxToken + 1}}},
		"MaxPlaintext": {[]codec.Options{{MaxPlaintext: 1}, {MaxPlaintext: codec.HardMaxPlaintext}},
			[]codec.Options{{MaxPlaintext: -1}, {MaxPlaintext: codec.HardMaxPlaintext + 1}}},
	} {
		for _, o := range tt.fit {
			_, err := codec.New(keys, o)
			require.NoError(t, err, "%+v", o)
		}
		for _, o := range tt.exceed {
			_, err := codec.New(keys, o)
			var option *codec.OptionError
			require.ErrorAs(t, err, &option, "%+v", o)
			require.Equal(t, name, option.Option)
		}
	}
}

func TestBoundsOfKeysetFiles(t *testing.T) {
	path := newKeysetFile(t)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data = append(data, bytes.Repeat([]byte{' '}, 1<<20-len(data))...)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	_, err = codec.LoadKeyset(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(data, ' '), 0o600))
	_, err = codec.LoadKeyset(path)
	require.ErrorContains(t, err, "larger than 1048576 bytes")
}

// Operators plan with these numbers, and the documents name them.
func TestDefaultLimits(t *testing.T) {
	require.Equal(t, 65536, codec.DefaultMaxToken)
	require.Equal(t, 131072, codec.HardMaxToken)
	require.Equal(t, 262144, codec.DefaultMaxPlaintext)
	require.Equal(t, 4194304, codec.HardMaxPlaintext)
}
