package tokens_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

func TestEveryOtherSpellingIsRefused(t *testing.T) {
	c := newCodec(t, newKeyset(t), tokens.Options{})
	token := seal(t, c, alice, sample(`{"at":"start"}`))
	refused := func(changed string) {
		t.Helper()
		x, err := c.Open(alice, noon, changed)
		require.Nil(t, x)
		require.EqualError(t, err, "token not accepted", "%q", changed)
		require.ErrorIs(t, err, tokens.ErrRejected)
	}
	for i := range token {
		for _, r := range alphabet + "+/=. \r\n\t\x00\x7f\xff~" {
			if string(r) != token[i:i+1] {
				refused(token[:i] + string(r) + token[i+1:])
			}
		}
		refused(token[:i])
		refused(token[i+1:])
		for _, extra := range []string{"\r", "\n", "\r\n", " ", "=", "A", "\x00"} {
			refused(token[:i] + extra + token[i:])
		}
	}
	for _, r := range alphabet {
		refused(token + string(r))
		refused(token + string(r) + string(r))
	}
	for _, extra := range []string{"=", "==", "===", "\r", "\n", "\r\n", " ", ".", token, "AAAA"} {
		refused(token + extra)
	}
	refused(strings.ToUpper(token))
	sealed, err := base64.RawURLEncoding.DecodeString(token[1:])
	require.NoError(t, err)
	refused("1" + base64.URLEncoding.EncodeToString(append(sealed, 0)))
	refused("1" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xff}, 100)))
	refused("1" + base64.RawStdEncoding.EncodeToString(bytes.Repeat([]byte{0xff}, 100)))
}

func TestStrayBitsAreRefused(t *testing.T) {
	c := newCodec(t, newKeyset(t), tokens.Options{})
	x := sample("")
	// Find a token whose last character has bits to spare.
	for range 64 {
		x.Claims.Tool += "x"
		token := seal(t, c, alice, x)
		if len(token[1:])%4 == 0 {
			continue
		}
		last := strings.IndexByte(alphabet, token[len(token)-1])
		changed := token[:len(token)-1] + alphabet[last+1:last+2]
		_, err := c.Open(alice, noon, changed)
		requireRejected(t, err, tokens.ReasonMalformed)
		return
	}
	t.Fatal("no token with spare bits")
}

func TestOpenRefuses(t *testing.T) {
	keys := newKeyset(t)
	c := newCodec(t, keys, tokens.Options{Audience: "here", MaxToken: 2000})
	token := seal(t, c, alice, sample(`{"at":"start"}`))
	elsewhere := newCodec(t, keys, tokens.Options{Audience: "there"})
	foreign := newCodec(t, newKeyset(t), tokens.Options{Audience: "here"})

	with := func(change func(*tokens.Binding)) tokens.Binding { b := alice; change(&b); return b }
	for name, tt := range map[string]struct {
		c      *tokens.Codec
		b      tokens.Binding
		now    time.Time
		token  string
		reason tokens.Reason
	}{
		"empty":              {c, alice, noon, "", tokens.ReasonMalformed},
		"short":              {c, alice, noon, "1AAAA", tokens.ReasonMalformed},
		"long":               {c, alice, noon, strings.Repeat("A", 2001), tokens.ReasonTooLong},
		"other version":      {c, alice, noon, "2" + token[1:], tokens.ReasonVersion},
		"line break":         {c, alice, noon, token[:9] + "\n" + token[9:], tokens.ReasonMalformed},
		"no key prefix":      {c, alice, noon, "1B" + token[2:], tokens.ReasonUnknownKey},
		"foreign keyset":     {foreign, alice, noon, token, tokens.ReasonUnknownKey},
		"changed":            {c, alice, noon, token[:30] + flip(token[30]) + token[31:], tokens.ReasonAuthentication},
		"foreign audience":   {elsewhere, alice, noon, token, tokens.ReasonAuthentication},
		"foreign purpose":    {c, with(func(b *tokens.Binding) { b.Purpose = "operation" }), noon, token, tokens.ReasonAuthentication},
		"foreign tenant":     {c, with(func(b *tokens.Binding) { b.Tenant = "umbrella" }), noon, token, tokens.ReasonAuthentication},
		"foreign principal":  {c, with(func(b *tokens.Binding) { b.Principal = "bob" }), noon, token, tokens.ReasonAuthentication},
		"anonymous":          {c, with(func(b *tokens.Binding) { b.Principal = "" }), noon, token, tokens.ReasonAuthentication},
		"fields swapped":     {c, with(func(b *tokens.Binding) { b.Tenant, b.Purpose = b.Purpose, b.Tenant }), noon, token, tokens.ReasonAuthentication},
		"expired":            {c, alice, noon.Add(11 * time.Minute), token, tokens.ReasonExpired},
		"long expired":       {c, alice, noon.Add(12 * time.Hour), token, tokens.ReasonExpired},
		"deadline passed":    {c, alice, noon.Add(25 * time.Hour), token, tokens.ReasonDeadline},
		"not yet valid":      {c, alice, noon.Add(-61 * time.Second), token, tokens.ReasonNotYetValid},
		"expired and forged": {elsewhere, alice, noon.Add(time.Hour), token, tokens.ReasonAuthentication},
	} {
		t.Run(name, func(t *testing.T) {
			x, err := tt.c.Open(tt.b, tt.now, tt.token)
			require.Nil(t, x)
			requireRejected(t, err, tt.reason)
			require.Equal(t, tt.reason, tt.c.Explain(tt.b, tt.now, tt.token, nil).Reason)
		})
	}
	for name, now := range map[string]time.Time{
		"skew before": noon.Add(-time.Minute), "skew after": noon.Add(11*time.Minute - time.Nanosecond),
	} {
		_, err := c.Open(alice, now, token)
		require.NoError(t, err, name)
	}
}

func flip(c byte) string {
	if c == 'A' {
		return "B"
	}
	return "A"
}

func TestFieldsOfABindingDoNotRunTogether(t *testing.T) {
	keys := newKeyset(t)
	fields := func(all ...string) (tokens.Options, tokens.Binding) {
		return tokens.Options{Audience: all[1]}, tokens.Binding{Purpose: all[0], Tenant: all[2], Principal: all[3]}
	}
	all := [][]string{
		{"a", "bc", "", ""}, {"ab", "c", "", ""}, {"abc", "", "", ""}, {"", "abc", "", ""}, {"", "", "abc", ""}, {"", "", "", "abc"},
		{"", "", "a", "bc"}, {"", "", "ab", "c"}, {"", "a", "bc", ""}, {"", "ab", "c", ""}, {"a", "b", "c", ""}, {"\x01a", "", "", ""}, {"", "", "", ""},
	}
	for i, sealed := range all {
		o, b := fields(sealed...)
		token := seal(t, newCodec(t, keys, o), b, sample("{}"))
		for j, opened := range all {
			o, b := fields(opened...)
			_, err := newCodec(t, keys, o).Open(b, noon, token)
			if i == j {
				require.NoError(t, err)
			} else {
				requireRejected(t, err, tokens.ReasonAuthentication)
			}
		}
	}
}

// Whatever the reason, a refusal says the same to those who read the error; the reason is for the log.
func TestRejected(t *testing.T) {
	cause := errors.New("other tool")
	reasons := []tokens.Reason{
		tokens.ReasonMalformed, tokens.ReasonTooLong, tokens.ReasonVersion, tokens.ReasonUnknownKey, tokens.ReasonAuthentication,
		tokens.ReasonExpired, tokens.ReasonNotYetValid, tokens.ReasonDeadline, tokens.ReasonFormat, tokens.ReasonTooLarge,
		tokens.ReasonTool, tokens.ReasonRevision, tokens.ReasonRequest, tokens.ReasonSpent, tokens.ReasonState,
	}
	for _, reason := range reasons {
		var err error = tokens.Reject(reason, "the call is for %q: %w", "undo", cause)
		requireRejected(t, err, reason)
		require.ErrorIs(t, err, cause)
		require.Equal(t, "token not accepted", fmt.Sprintf("%v", err))

		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("refused", "token", err)
		require.Contains(t, log.String(), `token.reason=`+string(reason)+` token.detail="the call is for \"undo\": other tool"`)
	}
	require.Equal(t, `[reason=authentication]`, (&tokens.Rejected{Reason: tokens.ReasonAuthentication}).LogValue().String())
}
