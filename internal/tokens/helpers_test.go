package tokens_test

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

var update = flag.Bool("update", false, "write golden files that are missing; frozen tokens are never overwritten")

var (
	noon  = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	alice = tokens.Binding{Purpose: "saga", Tenant: "acme", Principal: "https://id.example.com|alice"}
)

func newKeyset(t testing.TB) *codec.Keyset {
	t.Helper()
	k, err := codec.NewKeyset()
	require.NoError(t, err)
	return k
}

func newCodec(t testing.TB, k *codec.Keyset, o tokens.Options) *tokens.Codec {
	t.Helper()
	c, err := tokens.New(k, o)
	require.NoError(t, err)
	return c
}

// sample returns contents as a server would seal them.
func sample(state string) *tokens.Contents {
	return &tokens.Contents{
		Claims: tokens.Claims{
			ID:   tokens.ID{0x8f, 0x13, 0x9c, 0x55, 0x02, 0xe7, 0x41, 0xb6, 0xa0, 0x6d, 0x77, 0x2b, 0xc4, 0x18, 0xf3, 0x5e},
			Turn: 2, Tool: "deploy", Revision: 3,
			IssuedAt: noon, ExpiresAt: noon.Add(10 * time.Minute), Deadline: noon.Add(24 * time.Hour),
		},
		State: []byte(state),
	}
}

func seal(t testing.TB, c *tokens.Codec, b tokens.Binding, x *tokens.Contents) string {
	t.Helper()
	token, err := c.Seal(b, noon, x)
	require.NoError(t, err)
	return token
}

// requireRejected checks that err is a rejection for the given reason, with the
// one message there is.
func requireRejected(t testing.TB, err error, reason tokens.Reason) {
	t.Helper()
	require.ErrorIs(t, err, tokens.ErrRejected)
	require.EqualError(t, err, "token not accepted")
	var rejected *tokens.Rejected
	require.ErrorAs(t, err, &rejected)
	require.Equal(t, reason, rejected.Reason, "%v", rejected.Detail)
}
