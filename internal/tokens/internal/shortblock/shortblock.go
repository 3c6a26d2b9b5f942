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
// cheapest one is looked for. Texts of more than a kilobyte get a code of
// their own for their literals.
package shortblock

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"
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
	dictionary []byte
	start      recent
	index      index
	tables     tables
	huffman    *huff0.Scratch
	scratch    sync.Pool // of *scratch, or empty
}

// tables are those that a block's sequences are coded with.
type tables struct{ literals, lengths, offsets *table }

// scratch is the memory of one call.
type scratch struct {
	parser
	text      []byte // literals
	sequences []sequence
	huffman   huff0.Scratch
}

var errDictionary = errors.New("shortblock: not a dictionary of at most 64 KiB")

// New returns an encoder for a zstd dictionary, which must not change any more.
func New(dictionary []byte) (*Encoder, error) {
	d, err := zstd.InspectDictionary(dictionary)
	if err != nil {
		return nil, err
	}
	content := dictionary[len(dictionary)-d.ContentSize():] // without the copy that d has
	e := &Encoder{dictionary: content, start: d.Offsets(), huffman: d.LitEncoder()}
	const header = 8 // magic number and id
	if len(e.dictionary) >= 1<<16-1 || len(dictionary) < header {
		return nil, errDictionary
	}
	_, rest, err := huff0.ReadTable(dictionary[header:], nil)
	if err != nil {
		return nil, err
	}
	for _, t := range []struct {
		to        **table
		maxSymbol int
	}{{&e.tables.offsets, 31}, {&e.tables.lengths, 52}, {&e.tables.literals, 35}} {
		counts, log, after, err := readCounts(rest, t.maxSymbol)
		if err != nil {
			return nil, err
		}
		made := newTable(counts, log)
		*t.to, rest = &made, after
	}
	e.index = newIndex(e.dictionary)
	return e, nil
}

// Append appends a compressed block's content for text, without the block's header.
// It reports false if text is too long or too short for that, or does not get shorter:
// then a block would not be valid zstd (RFC 8878, 3.1.1.2.3).
func (e *Encoder) Append(dst, text []byte) ([]byte, bool) {
	if len(text) > MaxSize || len(text) < 16 {
		return dst, false
	}
	s, _ := e.scratch.Get().(*scratch)
	if s == nil {
		s = new(scratch)
		s.huffman.TransferCTable(e.huffman)
	}
	s.huffman.Reuse = huff0.ReusePolicyMust
	if len(text) > oneStream {
		s.huffman.Reuse = huff0.ReusePolicyAllow
	}
	e.parse(s, text)
	from := len(dst)
	dst = e.appendSequences(e.appendLiterals(s, dst), s.sequences)
	// The text may be secret, so it is wiped from what is kept.
	clear(s.near)
	clear(s.text)
	clear(s.huffman.Out[:cap(s.huffman.Out)])
	s.text, s.sequences = s.text[:0], s.sequences[:0]
	e.scratch.Put(s)
	if len(dst)-from >= len(text) {
		clear(dst[from:])
		return dst[:from], false
	}
	return dst, true
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
			dst = binary.LittleEndian.AppendUint64(dst, kind|format|n<<4|p<<size)
			return append(dst[:len(dst)-8+header], packed...)
		}
	}
	if n < 32 {
		dst = append(dst, byte(raw|n<<3))
	} else {
		dst = binary.LittleEndian.AppendUint16(dst, uint16(raw|1<<2|n<<4))
	}
	return append(dst, s.text...)
}

// What the parts of a block cost, in bits. That a literal costs as much as all others and a
// sequence as much as all with its offset is not exact, but knowing better was found to
// save nothing.
const (
	literalCost  = 6
	sequenceCost = 9 // and the bits of the offset
)

const (
	// A shorter match costs about as much as its literals.
	minLength = 5
	// maxNear and maxFar bound the places that are looked at, in the text and in the dictionary.
	maxNear, maxFar = 4, 16
	// enough is the length of a match inside which others are looked for at its second byte
	// only, and in a short text not at all: to do so everywhere takes twice the time for a
	// hundredth of the length.
	enough = 6
	// Hashes have so many bits: fewer of a short text, as all of them are to be wiped.
	fewBits, manyBits, farBits = 8, 11, 15
)

// parser finds the cheapest way to write a text: for each place, beginning with the first,
// it knows the cheapest way to get there, and looks where it leads to from there.
type parser struct {
	room   [1 << manyBits]uint16
	near   []uint16 // hash -> 1 + its last place in the text; part of room
	before []uint16 // place -> 1 + the place before it with that hash
	ways   []way    // place -> the cheapest way to it
	steps  []uint16 // places at which matches end, the last first
}

// way is the last step on a way, a literal or the match of so many bytes, and how many bits less
// than literals all of the way takes.
type way struct{ saved, offset, length uint32 }

func load(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// hash returns so many bits that depend on the first minLength bytes.
func hash(v uint64, bits uint) uint64 { return v << (64 - 8*minLength) * 0xcf1bbcdcbb >> (64 - bits) }

// index finds the places of a dictionary at which bytes have the same hash: those from
// first[h] to first[h+1], the last ones first, but no more than maxFar.
type index struct {
	first  [1<<farBits + 1]uint16
	places []uint16
}

func newIndex(dictionary []byte) index {
	var x index
	for i := 0; i+8 <= len(dictionary); i++ {
		if n := &x.first[hash(load(dictionary, i), farBits)+1]; *n < maxFar {
			*n++
		}
	}
	for h := range 1 << farBits {
		x.first[h+1] += x.first[h]
	}
	x.places = make([]uint16, x.first[1<<farBits])
	next := x.first
	for i := max(len(dictionary)-8, -1); i >= 0; i-- {
		if h := hash(load(dictionary, i), farBits); next[h] < x.first[h+1] {
			x.places[next[h]] = uint16(i)
			next[h]++
		}
	}
	return x
}

// parse finds the sequences, and what is left as literals.
func (e *Encoder) parse(s *scratch, text []byte) {
	hashBits := uint(fewBits)
	if len(text) > oneStream {
		hashBits = manyBits
	}
	s.near = s.room[:1<<hashBits]
	s.before = slices.Grow(s.before[:0], len(text))[:len(text)]
	s.ways = slices.Grow(s.ways[:0], len(text)+1)[:len(text)+1]
	ways := s.ways
	clear(ways)
	end := 0 // of a match that is long enough
	for at := 0; at < len(text); at++ {
		if saved := ways[at].saved; saved >= ways[at+1].saved {
			ways[at+1] = way{saved: saved}
		}
		if at+8 > len(text) {
			continue
		}
		longest := e.matches(s, text, at, hashBits)
		switch {
		case end > at: // the place after a match's first
			at, end = end-1, 0
		case longest >= enough && len(text) <= oneStream:
			at += longest - 1
		case longest >= enough:
			end = at + longest
		}
	}
	e.walk(s, text, ways)
}

// matches offers all matches at a place, and returns the length of the longest.
func (e *Encoder) matches(s *scratch, text []byte, at int, hashBits uint) (longest int) {
	v := load(text, at)
	longest = minLength - 1
	near := &s.near[hash(v, hashBits)]
	s.before[at] = *near
	place := *near
	*near = uint16(at + 1)
	for range maxNear {
		if place == 0 {
			break
		}
		i := int(place) - 1
		if n := common(text[i:], text[at:]); n > longest {
			s.offer(at, n, at-i)
			longest = n
		}
		place = s.before[i]
	}
	if longest >= enough {
		return longest
	}
	h := hash(v, farBits)
	for _, p := range e.index.places[e.index.first[h]:e.index.first[h+1]] {
		i := int(p)
		// What makes a match longer is not there for most, and is looked at first.
		if last := at + longest; last >= len(text) {
			break
		} else if j := i + longest; j >= len(e.dictionary) || e.dictionary[j] != text[last] {
			continue
		}
		if n := common(e.dictionary[i:], text[at:]); n > longest {
			s.offer(at, n, at+len(e.dictionary)-i)
			longest = n
		}
	}
	return longest
}

// offer notes where a match leads to.
func (p *parser) offer(at, length, offset int) {
	saved := p.ways[at].saved + uint32(literalCost*length-sequenceCost-bits.Len(uint(offset)))
	if w := &p.ways[at+length]; saved > w.saved {
		*w = way{saved, uint32(offset), uint32(length)}
	}
}

// walk goes the cheapest way back from the end, and notes what it consists of.
func (e *Encoder) walk(s *scratch, text []byte, ways []way) {
	steps := s.steps[:0]
	for at := len(text); at > 0; {
		if w := &ways[at]; w.length > 0 {
			steps = append(steps, uint16(at))
			at -= int(w.length)
		} else {
			at--
		}
	}
	s.steps = steps
	offsets := e.start
	from := 0 // of the literals
	for i := len(steps) - 1; i >= 0; i-- {
		end := int(steps[i])
		length, offset := int(ways[end].length), int(ways[end].offset)
		literals := text[from : end-length]
		s.text = append(s.text, literals...)
		s.sequences = append(s.sequences, sequence{
			code(uint32(len(literals)), 16, 0, literalCodes[:]), code(uint32(length), 35, minMatch, matchCodes[:]), offsets.code(offset, len(literals)),
		})
		from = end
	}
	s.text = append(s.text, text[from:]...)
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
