package tokens

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"

	"github.com/mcpsaga/mcpsaga/internal/tokens/internal/shortblock"
)

// A dictionary of zstd holds what states are likely to contain, and entropy tables for text
// of that kind: the vocabulary of MCP and of JSON in general, field names and values of
// forms, and common English.
//
// It is part of the token format and frozen for ever once a token was sealed with it. A
// better one gets the next number and the next coding; the others stay, because tokens in
// flight need them.
var (
	//go:embed dictionary1.zdict
	dictionary1 []byte
	//go:embed dictionary2.zdict
	dictionary2 []byte
)

// flateDictionary is the part of dictionary 2 that deflated states refer to: its end has what
// is needed most.
var flateDictionary = dictionary2[len(dictionary2)-8<<10:]

// How the body of a plaintext is coded, in the low bits of its flags. The numbers are for
// ever.
const (
	codingRaw   = 0
	codingZstd  = 1 // zstd without a dictionary, and
	codingDict1 = 2 // zstd with dictionary 1: nothing is sealed with them any more
	codingDict2 = 3
	codingFlate = 4
)

const (
	// maxShort is the largest state, in bytes, for which zstd with the dictionary pays. From
	// there on deflate is shorter, in any language.
	maxShort = 2 << 10
	// maxThorough is the largest state, in bytes, that is deflated at thoroughLevel, which takes
	// 20 µs a kilobyte.
	maxThorough = 64 << 10
	// thoroughLevel is the highest one whose work is bounded well: what a client makes on
	// purpose takes it six times as long as text, and the next level four hundred times.
	thoroughLevel = 8
	quickLevel    = flate.BestSpeed
)

// compressor turns states into bodies and back. What short states do not need is made when
// it is first asked for: with less memory in use, garbage is collected less often.
type compressor struct {
	short           *shortblock.Encoder
	decoder         *zstd.Decoder
	former          func() (*zstd.Decoder, error) // knows dictionary 1
	thorough, quick sync.Pool                     // of *deflater, each with 1 MB of tables, or empty
	inflaters       sync.Pool                     // of io.ReadCloser, or empty
}

type deflater struct {
	*flate.Writer
	out bytes.Buffer
}

// short is the encoder of all compressors: to find places in the dictionary it has tables, which are the
// same for all.
var short = sync.OnceValues(func() (*shortblock.Encoder, error) { return shortblock.New(dictionary2) })

// newCompressor returns a compressor for states of at most limit bytes.
func newCompressor(limit int) (*compressor, error) {
	decoder := func(dictionary []byte) (*zstd.Decoder, error) {
		return zstd.NewReader(nil,
			zstd.WithDecoderConcurrency(runtime.GOMAXPROCS(0)),
			zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(uint64(limit)),
			zstd.WithDecoderMaxWindow(uint64(max(limit, zstd.MinWindowSize))),
			zstd.WithDecodeAllCapLimit(true),
			zstd.WithDecoderDicts(dictionary))
	}
	z := &compressor{
		former: sync.OnceValues(func() (*zstd.Decoder, error) { return decoder(dictionary1) }),
	}
	var err error
	if z.short, err = short(); err != nil {
		return nil, err
	}
	z.decoder, err = decoder(dictionary2)
	return z, err
}

// A zstd frame spends some 13 bytes on what we know already, which is a tenth of
// a small token. A body is therefore: the size of the state, doubled, as a
// varint; then the frame's blocks without the frame's header, and if the size is
// odd (one was added), a single compressed block without even its own header.
// What is deflated follows the size, doubled.

// encode returns the body for a state, and its coding. The body is valid until
// buf is used again.
func (z *compressor) encode(buf *buffers, state []byte) (byte, []byte) {
	if len(state) == 0 {
		return codingRaw, nil
	}
	coding, size, ok := byte(codingDict2), uint64(len(state))<<1, false
	if len(state) <= maxShort {
		buf.text, ok = z.short.Append(binary.AppendUvarint(buf.text[:0], size|1), state)
	} else {
		coding = codingFlate
		buf.text, ok = z.deflate(binary.AppendUvarint(buf.text[:0], size), state)
	}
	if !ok || len(buf.text) >= len(state) {
		return codingRaw, state
	}
	return coding, buf.text
}

// deflate appends what flate makes of a state.
func (z *compressor) deflate(dst, state []byte) ([]byte, bool) {
	pool, level := &z.thorough, thoroughLevel
	if len(state) > maxThorough {
		pool, level = &z.quick, quickLevel
	}
	d, _ := pool.Get().(*deflater)
	if d == nil {
		d = new(deflater)
		var err error
		if d.Writer, err = flate.NewWriterDict(&d.out, level, flateDictionary); err != nil {
			return dst, false
		}
	}
	defer pool.Put(d)
	_, err := d.Write(state)
	err = errors.Join(err, d.Close())
	dst = append(dst, d.out.Bytes()...)
	// What one caller sealed must not linger in what the next one gets.
	clear(d.out.Bytes())
	d.out.Reset()
	d.Reset(&d.out)
	return dst, err == nil
}

// inflate undoes deflate. It reads no more than a state of so many bytes takes.
func (z *compressor) inflate(body []byte, size uint64) ([]byte, bool) {
	in := bytes.NewReader(body)
	r, _ := z.inflaters.Get().(io.ReadCloser)
	if r == nil {
		r = flate.NewReaderDict(in, flateDictionary)
	} else if err := r.(flate.Resetter).Reset(in, flateDictionary); err != nil {
		return nil, false
	}
	defer z.inflaters.Put(r)
	state := make([]byte, size)
	if _, err := io.ReadFull(r, state); err != nil {
		return nil, false
	}
	var more [1]byte
	n, err := r.Read(more[:])
	return state, n == 0 && err == io.EOF && in.Len() == 0
}

var (
	errBody  = errors.New("the state does not decompress")
	errBlock = errors.New("the state is compressed in a way this program does not know")
)

// decode undoes encode. The state is at most limit bytes.
func (z *compressor) decode(buf *buffers, coding byte, body []byte, limit int) ([]byte, *Rejected) {
	size, n, bare := uint64(len(body)), 0, false
	if coding != codingRaw {
		size, n = binary.Uvarint(body)
		size, bare = size>>1, size&1 != 0
	}
	switch {
	case coding > codingFlate:
		return nil, &Rejected{ReasonFormat, errBlock}
	case coding != codingRaw && (n <= 0 || size == 0):
		return nil, &Rejected{ReasonFormat, errBody}
	case int64(size) < 0 || int64(size) > int64(limit):
		return nil, Reject(ReasonTooLarge, "a state of %d bytes exceeds the limit of %d", size, limit)
	case coding == codingRaw:
		return slices.Clip(body), nil
	}
	body = body[n:]
	if coding == codingFlate {
		state, ok := z.inflate(body, size)
		if !ok || bare {
			return nil, &Rejected{ReasonFormat, errBody}
		}
		return state, nil
	}
	if bare && len(body) > maxBlock || !bare && !wholeFrame(body) {
		return nil, &Rejected{ReasonFormat, errBody}
	}
	// The header of a frame of a single segment, with its size in four bytes.
	const magic, descriptor, withDictionary = 0xfd2fb528, 2<<6 | 1<<5, 1
	frame := binary.LittleEndian.AppendUint32(buf.sealed[:0], magic)
	if coding == codingZstd {
		frame = append(frame, descriptor)
	} else {
		frame = append(frame, descriptor|withDictionary, coding-codingZstd)
	}
	frame = binary.LittleEndian.AppendUint32(frame, uint32(size))
	if bare {
		h := uint32(len(body))<<3 | blockCompressed<<1 | blockLast
		frame = append(frame, byte(h), byte(h>>8), byte(h>>16))
	}
	buf.sealed = append(frame, body...)
	decoder := z.decoder
	if coding == codingDict1 {
		var err error
		if decoder, err = z.former(); err != nil {
			return nil, &Rejected{ReasonFormat, errBody}
		}
	}
	state, err := decoder.DecodeAll(buf.sealed, make([]byte, 0, size))
	if err != nil || uint64(len(state)) != size {
		return nil, &Rejected{ReasonFormat, errBody}
	}
	return state, nil
}

// Of zstd's format, RFC 8878.
const (
	blockHeaderSize = 3
	blockLast       = 1
	blockRLE        = 1
	blockCompressed = 2
	maxBlock        = 128 << 10
)

// wholeFrame reports whether blocks are those of one frame, and nothing else: the
// decoder itself would go on with the next frame.
func wholeFrame(blocks []byte) bool {
	for len(blocks) >= blockHeaderSize {
		h := uint32(blocks[0]) | uint32(blocks[1])<<8 | uint32(blocks[2])<<16
		blocks = blocks[blockHeaderSize:]
		stored := int(h >> 3)
		if h>>1&3 == blockRLE {
			stored = 1
		}
		if stored > len(blocks) {
			return false
		}
		blocks = blocks[stored:]
		if h&blockLast != 0 {
			return len(blocks) == 0
		}
	}
	return false
}
