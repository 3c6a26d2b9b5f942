package codec

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDictionariesAreFrozen(t *testing.T) {
	for i, frozen := range []struct {
		dictionary []byte
		sum        string
	}{
		{dictionary1, "77822f3820ef616e174ae2377ef8ea511446ecf058f60ac1e42fb0c9d9944fd4"},
		{dictionary2, "01ce247e8d0a04e00e4d7175f5be0d0de63eaa2af8047fb4875741aa401d300f"},
	} {
		sum := sha256.Sum256(frozen.dictionary)
		require.Equal(t, frozen.sum, hex.EncodeToString(sum[:]),
			"dictionary %d: a released one never changes, give the new one a number of its own", i+1)
	}
}

func TestPaddedSize(t *testing.T) {
	for _, tt := range [][2]int{{0, 0}, {1, 1}, {2, 2}, {7, 7}, {9, 10}, {17, 18}, {100, 104}, {128, 128}, {129, 144}, {1000, 1024}, {8193, 8704}} {
		require.Equal(t, tt[1], paddedSize(tt[0]), "%d", tt[0])
	}
	for n := range 300_000 {
		p := paddedSize(n)
		if p < n || p > n+n*12/100+1 || paddedSize(p) != p {
			t.Fatalf("paddedSize(%d) = %d", n, p)
		}
	}
}
