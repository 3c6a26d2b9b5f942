package tokens

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What one caller sealed or opened must not linger in memory that the next one gets.
func TestScratchMemoryIsCleared(t *testing.T) {
	b := &buffers{plain: []byte("plain"), sealed: []byte("sealed"), text: []byte("text")}
	was := [][]byte{b.plain, b.sealed, b.text}
	b.plain, b.sealed, b.text = b.plain[:1], b.sealed[:1], b.text[:1] // what was longer came before
	mintingCodec(t, Options{}).release(b)
	for _, part := range was {
		require.Equal(t, make([]byte, len(part)), part)
	}
}

// Claims that are only half there are not shown.
func TestExplainShowsNoClaimsThatDoNotDecode(t *testing.T) {
	c := mintingCodec(t, Options{})
	x := c.Explain(Binding{}, mintedAt, mint(t, c, front(codingRaw)[:12]), func(*Contents) { t.Error("what does not decode is not shown") })
	require.Equal(t, ReasonFormat, x.Reason)
	require.Nil(t, x.Claims)
}
