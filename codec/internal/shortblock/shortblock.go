// Package shortblock compresses short texts with a dictionary into zstd blocks.
//
// A general zstd encoder is made for long inputs: for each it restores tables of
// hundreds of kilobytes and works out new entropy codes, which for the state of a
// small saga takes most of the time of sealing it. This one keeps what it knows of
// the dictionary in tables that never change, and codes with the dictionary's own
// entropy tables. It writes plain zstd (RFC 8878): any decoder with the dictionary
// reads it.
//
// Texts of more than a kilobyte get a code of their own for their literals, and a
// second try if the first could not use the dictionary's tables.
package shortblock

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"sync"

	"github.com/klauspost/compress/huff0"
	"github.com/klauspost/compress/zstd"
)

// MaxSize is the size of the longest text: what the headers of raw literals hold
// that are used here.
const MaxSize = 4<<10 - 1

// oneStream is the size of the longest text whose literals are a single stream.
const oneStream = 1<<10 - 1

const (
	// A match in the dictionary costs some four bytes, a near one less.
	minFar, minNear = 6, 5
	farBits         = 15
	// maxTries bounds the places in the dictionary that are looked at.
	maxTries = 4
	// Of a short text fewer places are remembered, as all are to be wiped.
	fewBits, manyBits = 10, 12
)

// Encoder compresses with one dictionary. It is safe for concurrent use.
type Encoder struct {
	dictionary                 []byte
	start                      recent
	far                        [1 << farBits]uint16 // hash of minFar bytes -> 1 + their last place in dictionary
	before                     []uint16             // place -> 1 + the place before it with that hash
	literals, lengths, offsets table
	huffman                    *huff0.Scratch
	scratch                    sync.Pool // of *scratch
}

// scratch is the memory of one call.
type scratch struct {
	room      [1 << manyBits]uint16
	near      []uint16 // hash of minNear bytes -> 1 + their place in the text; part of room
	bits      uint     // of the hashes
	text      []byte   // literals
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
	e.before = make([]uint16, len(e.dictionary))
	for i := 0; i+8 <= len(e.dictionary); i++ {
		last := &e.far[hashFar(load(e.dictionary, i))]
		e.before[i], *last = *last, uint16(i+1)
	}
	e.scratch.New = func() any {
		s := new(scratch)
		s.huffman.TransferCTable(e.huffman)
		return s
	}
	return e, nil
}

func load(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

func hashFar(v uint64) uint64 { return v << (64 - 8*minFar) * 0xcf1bbcdcbf9b0000 >> (64 - farBits) }

func hashNear(v uint64, bits uint) uint64 {
	return v << (64 - 8*minNear) * 0xcf1bbcdcbb000000 >> (64 - bits)
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
	from := len(dst)
	if dst = e.appendBest(s, dst, text); len(dst)-from >= len(text) {
		clear(dst[from:])
		return dst[:from], false
	}
	return dst, true
}

func (e *Encoder) appendBest(s *scratch, dst, text []byte) []byte {
	if len(text) <= oneStream {
		s.bits, s.huffman.Reuse = fewBits, huff0.ReusePolicyMust
		return e.appendBlock(s, dst, text, false)
	}
	s.bits, s.huffman.Reuse = manyBits, huff0.ReusePolicyAllow
	from := len(dst)
	dst = e.appendBlock(s, dst, text, false)
	if _, modes := e.tablesFor(s.sequences); modes|offsetsMode == allModes {
		return dst // nothing to win
	}
	second := len(dst)
	dst = e.appendBlock(s, dst, text, true)
	n := second - from
	if len(dst)-second < n {
		n = copy(dst[from:], dst[second:])
	}
	clear(dst[from+n:])
	return dst[:from+n]
}

func (e *Encoder) appendBlock(s *scratch, dst, text []byte, keepTables bool) []byte {
	s.wipe()
	s.near = s.room[:1<<s.bits]
	e.match(s, text, keepTables)
	return e.appendSequences(e.appendLiterals(s, dst), s.sequences)
}

// release wipes s and keeps it.
func (e *Encoder) release(s *scratch) {
	s.wipe()
	e.scratch.Put(s)
}

// wipe clears what s holds of the text, which may be secret.
func (s *scratch) wipe() {
	clear(s.near)
	clear(s.text)
	clear(s.huffman.Out[:cap(s.huffman.Out)])
	s.text, s.sequences = s.text[:0], s.sequences[:0]
}

// match finds the sequences, and what is left as literals. keepTables: a symbol that
// the dictionary's table lacks costs that table for the whole text, which may cost
// more than a worse match.
func (e *Encoder) match(s *scratch, text []byte, keepTables bool) {
	offsets := e.start
	from := 0 // of the literals
	for at := 0; at+8 <= len(text); {
		length, offset := e.best(s, text, at)
		if length == 0 {
			at++
			continue
		}
		// The next byte may begin a better one.
		if at+9 <= len(text) {
			if l, o := e.best(s, text, at+1); l > length+1 {
				at, length, offset = at+1, l, o
			}
		}
		for at > from && offset < at+len(e.dictionary) && back(e.dictionary, text, at-1, offset) == text[at-1] {
			at--
			length++
		}
		for keepTables && length > minNear {
			if !e.literals.has(codeLiterals(at - from).symbol) {
				at++
			} else if e.lengths.has(codeMatch(length).symbol) {
				break
			}
			length--
		}
		s.text = append(s.text, text[from:at]...)
		s.sequences = append(s.sequences, sequence{
			codeLiterals(at - from), codeMatch(length), codeOffset(offsets.code(offset, at-from)),
		})
		for i := at + 2; i < at+length && i+8 <= len(text); i += 2 {
			s.near[hashNear(load(text, i), s.bits)] = uint16(i + 1)
		}
		at += length
		from = at
	}
	s.text = append(s.text, text[from:]...)
}

// best returns the longest match at a place, and how far back it lies.
func (e *Encoder) best(s *scratch, text []byte, at int) (length, offset int) {
	v := load(text, at)
	near := &s.near[hashNear(v, s.bits)]
	// Most places do not match at all: that is found out without a call.
	if i := int(*near) - 1; i >= 0 && i < at && (load(text, i)^v)<<(64-8*minNear) == 0 {
		length, offset = common(text[i:], text[at:]), at-i
	}
	*near = uint16(at + 1)
	place := e.far[hashFar(v)]
	for range maxTries {
		if place == 0 {
			break
		}
		i := int(place) - 1
		if (load(e.dictionary, i)^v)<<(64-8*minFar) == 0 {
			if n := common(e.dictionary[i:], text[at:]); n > length {
				length, offset = n, at+len(e.dictionary)-i
			}
		}
		place = e.before[i]
	}
	return length, offset
}

// back returns the byte that lies offset bytes before a place.
func back(dictionary, text []byte, at, offset int) byte {
	if offset <= at {
		return text[at-offset]
	}
	return dictionary[len(dictionary)+at-offset]
}

// common returns how many bytes a and b have in common at their beginnings.
func common(a, b []byte) int {
	n, limit := 0, min(len(a), len(b))
	for n+8 <= limit {
		if x := load(a, n) ^ load(b, n); x != 0 {
			return n + bits.TrailingZeros64(x)/8
		}
		n += 8
	}
	for n < limit && a[n] == b[n] {
		n++
	}
	return n
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
