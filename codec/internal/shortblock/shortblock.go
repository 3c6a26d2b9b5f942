// Package shortblock compresses short texts with a dictionary into zstd blocks.
//
// A general zstd encoder is made for long inputs: for each it restores tables of
// hundreds of kilobytes and works out new entropy codes, which for the state of a
// small saga takes most of the time of sealing it. This one keeps what it knows of
// the dictionary in tables that never change, and codes with the dictionary's own
// entropy tables. It writes plain zstd (RFC 8878): any decoder with the dictionary
// reads it.
//
// As the tables are known beforehand, so is what each way of writing a text costs, and the
// cheapest one is looked for (see parse.go). Texts of more than a kilobyte get a code of
// their own for their literals.
package shortblock

import (
	"errors"
	"sync"

	"github.com/klauspost/compress/huff0"
	"github.com/klauspost/compress/zstd"
)

// MaxSize is the size of the longest text: what the headers of raw literals hold
// that are used here.
const MaxSize = 4<<10 - 1

// oneStream is the size of the longest text whose literals are a single stream.
const oneStream = 1<<10 - 1

// Encoder compresses with one dictionary. It is safe for concurrent use.
type Encoder struct {
	dictionary                 []byte
	start                      recent
	index                      index
	literals, lengths, offsets table
	huffman                    *huff0.Scratch
	scratch                    sync.Pool // of *scratch
}

// scratch is the memory of one call.
type scratch struct {
	parser
	text      []byte // literals
	sequences []sequence
	huffman   huff0.Scratch
}

var errDictionary = errors.New("shortblock: not a dictionary of at most 64 KiB")

// New returns an encoder for a zstd dictionary.
func New(dictionary []byte) (*Encoder, error) {
	d, err := zstd.InspectDictionary(dictionary)
	if err != nil {
		return nil, err
	}
	e := &Encoder{dictionary: d.Content(), start: d.Offsets(), huffman: d.LitEncoder()}
	const header = 8 // magic number and id
	if len(e.dictionary) >= 1<<16-1 || len(dictionary) < header {
		return nil, errDictionary
	}
	_, rest, err := huff0.ReadTable(dictionary[header:], nil)
	if err != nil {
		return nil, err
	}
	for _, t := range []struct {
		to        *table
		maxSymbol int
	}{{&e.offsets, 31}, {&e.lengths, 52}, {&e.literals, 35}} {
		counts, log, after, err := readCounts(rest, t.maxSymbol)
		if err != nil {
			return nil, err
		}
		*t.to, rest = newTable(counts, log), after
	}
	e.index = newIndex(e.dictionary)
	e.scratch.New = func() any {
		s := new(scratch)
		s.huffman.TransferCTable(e.huffman)
		return s
	}
	return e, nil
}

// Append appends a compressed block's content for text, without the block's header.
// It reports false if text is too long or too short for that, or does not get shorter:
// then a block would not be valid zstd (RFC 8878, 3.1.1.2.3).
func (e *Encoder) Append(dst, text []byte) ([]byte, bool) {
	if len(text) > MaxSize || len(text) < 16 {
		return dst, false
	}
	s := e.scratch.Get().(*scratch)
	defer e.release(s)
	s.huffman.Reuse = huff0.ReusePolicyMust
	if len(text) > oneStream {
		s.huffman.Reuse = huff0.ReusePolicyAllow
	}
	e.parse(s, text)
	from := len(dst)
	dst = e.appendSequences(e.appendLiterals(s, dst), s.sequences)
	if len(dst)-from >= len(text) {
		clear(dst[from:])
		return dst[:from], false
	}
	return dst, true
}

// release wipes s of the text, which may be secret, and keeps it.
func (e *Encoder) release(s *scratch) {
	s.wipe()
	clear(s.text)
	clear(s.huffman.Out[:cap(s.huffman.Out)])
	s.text, s.sequences = s.text[:0], s.sequences[:0]
	e.scratch.Put(s)
}

// Types of literals' sections, and the format of one with four streams.
const (
	raw         = 0
	compressed  = 2
	treeless    = 3
	fourStreams = 2 << 2
)

// appendLiterals writes the literals' section of a block (RFC 8878, 3.1.1.3.1): with
// a Huffman code if that is shorter, the dictionary's or the text's own, else as
// they are.
func (e *Encoder) appendLiterals(s *scratch, dst []byte) []byte {
	n := uint64(len(s.text))
	if n > 16 {
		compress, format, size, header := huff0.Compress1X, uint64(0), 14, 3
		if n > oneStream {
			compress, format, size, header = huff0.Compress4X, fourStreams, 18, 4
		}
		packed, reused, err := compress(s.text, &s.huffman)
		kind := uint64(treeless)
		if !reused {
			kind = compressed
			s.huffman.TransferCTable(e.huffman) // for the next text
		}
		if p := uint64(len(packed)); err == nil && p+1 < n {
			return append(appendHeader(dst, kind|format|n<<4|p<<size, header), packed...)
		}
	}
	if n < 32 {
		dst = appendHeader(dst, raw|n<<3, 1)
	} else {
		dst = appendHeader(dst, raw|1<<2|n<<4, 2)
	}
	return append(dst, s.text...)
}

// appendHeader appends the lowest bytes of v.
func appendHeader(dst []byte, v uint64, bytes int) []byte {
	for range bytes {
		dst = append(dst, byte(v))
		v >>= 8
	}
	return dst
}
