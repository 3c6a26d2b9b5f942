package shortblock_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec/internal/shortblock"
)

var samples = []string{
	`{"action":"accept","content":{"target":"production"}}`,
	`{"messages":[{"role":"user","content":{"type":"text","text":"Is deploying to 'production' safe right now?"}}],"maxTokens":100}`,
	strings.Repeat("a", 1000),
	strings.Repeat("The quick brown fox jumps over the lazy dog. ", 20),
	"\x01\x06advice\x01\x01\x00\x00\x0fstep-sampling-B" + `{"messages":[]}`,
}

type rig struct {
	*shortblock.Encoder
	decoder *zstd.Decoder
}

func newRig(t testing.TB) rig {
	dictionary, err := os.ReadFile("../../dictionary2.zdict")
	require.NoError(t, err)
	e, err := shortblock.New(dictionary)
	require.NoError(t, err)
	d, err := zstd.NewReader(nil, zstd.WithDecoderDicts(dictionary), zstd.WithDecoderMaxMemory(1<<20))
	require.NoError(t, err)
	t.Cleanup(d.Close)
	return rig{e, d}
}

// decode reads a block's content with the decoder of the library.
func (r rig) decode(t testing.TB, block []byte, size int) []byte {
	frame := binary.LittleEndian.AppendUint32([]byte{0x28, 0xb5, 0x2f, 0xfd, 2<<6 | 1<<5 | 1, 2}, uint32(size))
	h := uint32(len(block))<<3 | 2<<1 | 1
	frame = append(append(frame, byte(h), byte(h>>8), byte(h>>16)), block...)
	text, err := r.decoder.DecodeAll(frame, nil)
	require.NoError(t, err)
	return text
}

func TestADecoderReadsWhatItWrites(t *testing.T) {
	r := newRig(t)
	random := rand.New(rand.NewPCG(1, 2))
	texts := samples
	all := strings.Join(samples, "")
	for range 2000 {
		// Mixtures of what repeats, what the dictionary has and noise.
		var b strings.Builder
		for b.Len() < 10+random.IntN(shortblock.MaxSize-200) {
			switch at := random.IntN(len(all) - 50); random.IntN(4) {
			case 0:
				b.WriteByte(byte(random.Uint32()))
			case 1:
				b.WriteString(strings.Repeat(all[at:at+1], random.IntN(100)))
			default:
				b.WriteString(all[at : at+random.IntN(50)])
			}
		}
		texts = append(texts, b.String())
	}
	compressed := 0
	for _, text := range texts {
		block, ok := r.Append([]byte("before"), []byte(text))
		if !ok {
			require.Equal(t, "before", string(block))
			continue
		}
		compressed++
		require.True(t, bytes.HasPrefix(block, []byte("before")))
		require.Equal(t, text, string(r.decode(t, block[len("before"):], len(text))))
	}
	require.Greater(t, compressed, len(texts)*9/10)
}

func TestWhatItLeavesToOthers(t *testing.T) {
	r := newRig(t)
	noise := make([]byte, shortblock.MaxSize)
	rand.NewChaCha8([32]byte{1}).Read(noise)
	for _, text := range []string{"", "short", strings.Repeat("x", shortblock.MaxSize+1), string(noise), string(noise[:1000]), string(noise[:16])} {
		block, ok := r.Append([]byte("before"), []byte(text))
		require.False(t, ok, "%d bytes", len(text))
		require.Equal(t, "before", string(block))
		rest := block[len(block):cap(block)]
		require.Equal(t, make([]byte, len(rest)), rest, "wiped")
	}
	_, err := shortblock.New([]byte("no dictionary"))
	require.Error(t, err)
}

// TestEarlierTextsDoNotMatter: what one caller's text is compressed to says nothing
// of another's.
func TestEarlierTextsDoNotMatter(t *testing.T) {
	used := newRig(t)
	noise := make([]byte, shortblock.MaxSize)
	rand.NewChaCha8([32]byte{2}).Read(noise)
	texts := append(slices.Clone(samples), string(noise), strings.Repeat(strings.Join(samples, ""), 2), strings.Repeat("abcdefgh", 500))
	// Literals with codes of their own, in one stream and in four.
	for _, n := range []int{600, 3000} {
		b := make([]byte, n)
		for i, c := range noise[:n] {
			b[i] = c >> 5
		}
		texts = append(texts, string(b)+strings.Repeat("z", 600))
	}
	alone := make([]string, len(texts))
	for i, text := range texts {
		block, _ := newRig(t).Append(nil, []byte(text))
		alone[i] = string(block)
	}
	for i := range texts {
		for j, text := range texts {
			_, _ = used.Append(nil, []byte(texts[i]))
			block, _ := used.Append(nil, []byte(text))
			require.Equal(t, alone[j], string(block), "text %d after %d", j, i)
		}
	}
}

func FuzzRoundTrip(f *testing.F) {
	r := newRig(f)
	for _, s := range samples {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if block, ok := r.Append(nil, text); ok {
			require.Equal(t, string(text), string(r.decode(t, block, len(text))))
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	r := newRig(b)
	text := []byte(samples[1])
	var block []byte
	b.ReportAllocs()
	for b.Loop() {
		block, _ = r.Append(block[:0], text)
	}
	b.ReportMetric(float64(len(block))/float64(len(text)), "of-input")
}
