package shortblock_test

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec/internal/shortblock"
)

func TestReferenceDecoder(t *testing.T) {
	r := newRig(t)
	dict, _ := os.ReadFile("../../dictionary1.zdict")
	id := binary.LittleEndian.Uint32(dict[4:])
	random := rand.New(rand.NewPCG(7, 9))
	all := strings.Join(samples, "") + string(dict[len(dict)-8000:])
	var out, want []byte
	big, smaller, kinds := 0, 0, map[byte]int{}
	for k := range 20000 {
		var b strings.Builder
		size := 16 + random.IntN(shortblock.MaxSize-16)
		alphabet := 1 + random.IntN(255)
		mode := k % 5
		for b.Len() < size {
			switch m := mode; {
			case m == 0:
				b.WriteByte(byte(random.IntN(alphabet)))
			case m == 1:
				at := random.IntN(len(all) - 300)
				b.WriteString(all[at : at+random.IntN(300)])
			case m == 2:
				b.WriteString(strings.Repeat(string(rune(random.IntN(128))), random.IntN(2000)))
			case m == 3: // skewed
				x := random.ExpFloat64() * 10
				b.WriteByte(byte(x))
			default:
				at := random.IntN(len(all) - 50)
				if random.IntN(3) == 0 {
					b.WriteByte(byte(random.Uint32()))
				} else {
					b.WriteString(all[at : at+random.IntN(50)])
				}
			}
		}
		text := b.String()
		if len(text) > shortblock.MaxSize {
			text = text[:shortblock.MaxSize]
		}
		block, ok := r.Append(nil, []byte(text))
		if !ok || len(block) >= len(text) {
			continue // not sent
		}
		smaller++
		if len(text) > 1023 {
			big++
		}
		kinds[block[0]&15]++
		require.Equal(t, text, string(r.decode(t, block, len(text))))
		frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 2<<6 | 1<<5 | 3}
		frame = binary.LittleEndian.AppendUint32(frame, id)
		frame = binary.LittleEndian.AppendUint32(frame, uint32(len(text)))
		h := uint32(len(block))<<3 | 2<<1 | 1
		out = append(append(append(out, frame...), byte(h), byte(h>>8), byte(h>>16)), block...)
		want = append(want, text...)
	}
	t.Log(smaller, big, kinds, len(out), len(want))
	require.NoError(t, os.WriteFile("/tmp/pr/all.zst", out, 0o600))
	require.NoError(t, exec.Command("zstd", "-q", "-f", "-D", "../../dictionary1.zdict", "-d", "/tmp/pr/all.zst", "-o", "/tmp/pr/all.out").Run())
	got, err := os.ReadFile("/tmp/pr/all.out")
	require.NoError(t, err)
	require.True(t, string(want) == string(got))
}
