package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/mcpsaga/mcpsaga/codec/internal/shortblock"
)

// How the body of a plaintext is coded, in the low bits of its flags. Coding 1+n
// for n > 0 is zstd with dictionary n. The numbers are for ever.
const (
	codingRaw    = 0
	codingZstd   = 1
	codingDict1  = 2 // nothing is sealed with it any more
	codingDict2  = 3
	maxCoding    = codingDict2
	noDictionary = 0
)

// codingName returns the name of a coding, for people.
func codingName(coding byte) string {
	switch {
	case coding == codingRaw:
		return "raw"
	case coding == codingZstd:
		return "zstd"
	case coding <= maxCoding:
		return fmt.Sprintf("zstd dictionary %d", coding-codingZstd)
	}
	return fmt.Sprintf("unknown coding %d", coding)
}

const (
	// maxWithDictionary is the largest state, in bytes, for which a dictionary
	// pays: with others it saves little and slows the decoder down.
	maxWithDictionary = 16 << 10
	// minOwnCodes is the smallest state, in bytes, for which entropy codes of its own
	// can pay. If one that is smaller does not get shorter with the dictionary's, as
	// most of it is hashes, nothing makes it shorter.
	minOwnCodes = 128
)

// compressor turns states into bodies and back.
type compressor struct {
	short             *shortblock.Encoder
	dictionary, plain *zstd.Encoder
	decoder           *zstd.Decoder
}

// newCompressor returns a compressor for states of at most limit bytes.
func newCompressor(limit int) (*compressor, error) {
	options := func(level zstd.EncoderLevel, more ...zstd.EOption) []zstd.EOption {
		return append(more,
			zstd.WithEncoderLevel(level),
			zstd.WithEncoderCRC(false), // the token is authenticated
			zstd.WithSingleSegment(true),
			zstd.WithAllLitEntropyCompression(true), // base64 in states compresses only so
			zstd.WithEncoderConcurrency(runtime.GOMAXPROCS(0)),
			zstd.WithLowerEncoderMem(true))
	}
	var z compressor
	var err error
	if z.short, err = shortblock.New(dictionary2); err != nil {
		return nil, err
	}
	for _, e := range [...]struct {
		to      **zstd.Encoder
		options []zstd.EOption
	}{
		{&z.plain, options(zstd.SpeedDefault)},
		{&z.dictionary, options(zstd.SpeedFastest, zstd.WithEncoderDict(dictionary2))},
	} {
		if *e.to, err = zstd.NewWriter(nil, e.options...); err != nil {
			return nil, err
		}
	}
	z.decoder, err = zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(runtime.GOMAXPROCS(0)),
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(uint64(limit)),
		zstd.WithDecoderMaxWindow(uint64(max(limit, zstd.MinWindowSize))),
		zstd.WithDecodeAllCapLimit(true),
		zstd.WithDecoderDicts(dictionary1, dictionary2))
	if err != nil {
		return nil, err
	}
	return &z, nil
}

// A zstd frame spends some 13 bytes on what we know already, which is a tenth of
// a small token. A body is therefore: the size of the state, doubled, as a
// varint; then the frame's blocks without the frame's header, and if the size is
// odd (one was added), a single compressed block without even its own header.

// encode returns the body for a state, and its coding. The body is valid until
// buf is used again.
func (z *compressor) encode(buf *buffers, state []byte) (byte, []byte) {
	if len(state) == 0 {
		return codingRaw, nil
	}
	if body, ok := z.encodeShort(buf, state); ok {
		return codingDict2, body
	}
	if len(state) < minOwnCodes {
		return codingRaw, state
	}
	coding, encoder := byte(codingZstd), z.plain
	if len(state) <= maxWithDictionary {
		coding, encoder = codingDict2, z.dictionary
	}
	return z.compress(buf, coding, encoder, state)
}

// encodeShort is encode for short states. It reports false if it does not make
// the state shorter.
func (z *compressor) encodeShort(buf *buffers, state []byte) ([]byte, bool) {
	body, ok := z.short.Append(binary.AppendUvarint(buf.text[:0], uint64(len(state))<<1|1), state)
	buf.text = body
	if !ok || len(body) >= len(state) {
		clear(body) // what comes into buf next may be shorter
		return nil, false
	}
	return body, true
}

// compress is encode with the coding and the encoder chosen.
func (z *compressor) compress(buf *buffers, coding byte, encoder *zstd.Encoder, state []byte) (byte, []byte) {
	frame := encoder.EncodeAll(state, buf.sealed[:0])
	buf.sealed = frame
	var header zstd.Header
	if err := header.Decode(frame); err != nil || header.HeaderSize > len(frame) {
		return codingRaw, state
	}
	if coding != codingZstd && header.DictionaryID == noDictionary {
		coding = codingZstd
	}
	blocks := frame[header.HeaderSize:]
	size := uint64(len(state)) << 1
	if block, ok := onlyBlock(blocks); ok {
		blocks, size = block, size|1
	}
	buf.text = append(binary.AppendUvarint(buf.text[:0], size), blocks...)
	if len(buf.text) >= len(state) {
		return codingRaw, state
	}
	return coding, buf.text
}

var (
	errBody  = errors.New("the state does not decompress")
	errBlock = errors.New("the state is compressed in a way this program does not know")
)

// decode undoes encode. The state is at most limit bytes.
func (z *compressor) decode(buf *buffers, coding byte, body []byte, limit int) ([]byte, *Rejected) {
	if coding == codingRaw {
		if len(body) > limit {
			return nil, Reject(ReasonTooLarge, "a state of %d bytes exceeds the limit of %d", len(body), limit)
		}
		return slices.Clip(body), nil
	}
	if coding > maxCoding {
		return nil, &Rejected{ReasonFormat, errBlock}
	}
	v, n := binary.Uvarint(body)
	size, bare := v>>1, v&1 != 0
	switch {
	case n <= 0 || size == 0:
		return nil, &Rejected{ReasonFormat, errBody}
	case limit < 0 || size > uint64(limit):
		return nil, Reject(ReasonTooLarge, "a state of %d bytes exceeds the limit of %d", size, limit)
	}
	buf.sealed = appendFrameHeader(buf.sealed[:0], coding-codingZstd, uint32(size))
	blocks := body[n:]
	if bare && len(blocks) > maxBlock || !bare && !wholeFrame(blocks) {
		return nil, &Rejected{ReasonFormat, errBody}
	}
	if bare {
		h := uint32(len(blocks))<<3 | blockCompressed<<1 | blockLast
		buf.sealed = append(buf.sealed, byte(h), byte(h>>8), byte(h>>16))
	}
	buf.sealed = append(buf.sealed, blocks...)
	state, err := z.decoder.DecodeAll(buf.sealed, make([]byte, 0, size))
	if err != nil || uint64(len(state)) != size {
		return nil, &Rejected{ReasonFormat, errBody}
	}
	return state, nil
}
