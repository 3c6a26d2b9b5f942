package shortblock

import (
	"encoding/binary"
	"math/bits"
)

// What the parts of a block cost, in bits. That a literal costs as much as all others and a
// sequence as much as all with its offset is not exact, but knowing better was found to
// save nothing.
const (
	literalCost  = 6
	sequenceCost = 9 // and the bits of the offset
)

const (
	// A shorter match costs more than its literals. Far ones are in the dictionary.
	minNear, minFar = 5, 6
	farBits         = 15
	// maxNear and maxFar bound the places that are looked at.
	maxNear, maxFar = 4, 32
	// enough is the length of a match inside which others are looked for at its second byte
	// only: to do so at all of them takes twice the time for a hundredth of the length.
	enough = 6
	// Of a short text fewer hashes are kept apart, as all of them are to be wiped.
	fewBits, manyBits = 8, 11
)

// parser finds the cheapest way to write a text: for each place, beginning with the first,
// it knows the cheapest way to get there, and looks where it leads to from there.
type parser struct {
	room   [1 << manyBits]uint16
	near   []uint16            // hash of minNear bytes -> 1 + their last place in the text; part of room
	before [MaxSize]uint16     // place -> 1 + the place before it with that hash
	ways   [MaxSize + 1]way    // place -> the cheapest way to it
	steps  [MaxSize / 4]uint16 // places at which matches end, the last first
}

// way is the last step on a way: a literal, or the match of so many bytes.
type way struct{ cost, offset, length uint32 }

func (p *parser) wipe() { clear(p.near) }

func load(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// index finds the places of a dictionary at which the same minFar bytes are.
type index struct {
	// places from first[h] to first[h+1] have the hash h, the last ones first.
	first  [1<<farBits + 1]uint16
	places []place
}

// place is where bytes are, and more of their hash: most places that do not match are told
// apart by that alone.
type place struct{ at, check uint16 }

func hashFar(v uint64) (hash, check uint16) {
	v = v << (64 - 8*minFar) * 0xcf1bbcdcbf9b0000
	return uint16(v >> (64 - farBits)), uint16(v >> (64 - farBits - 16))
}

func newIndex(dictionary []byte) index {
	var x index
	for i := 0; i+8 <= len(dictionary); i++ {
		h, _ := hashFar(load(dictionary, i))
		x.first[h+1]++
	}
	for h := range 1 << farBits {
		x.first[h+1] += x.first[h]
	}
	x.places = make([]place, x.first[1<<farBits])
	next := x.first
	for i := max(len(dictionary)-8, -1); i >= 0; i-- {
		h, check := hashFar(load(dictionary, i))
		x.places[next[h]] = place{uint16(i), check}
		next[h]++
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
	ways := s.ways[:len(text)+1]
	for i := range ways {
		ways[i] = way{cost: uint32(literalCost * i)}
	}
	end := 0 // of a match that is long enough
	for at := 0; at < len(text); at++ {
		if next := ways[at].cost + literalCost; next <= ways[at+1].cost {
			ways[at+1] = way{cost: next}
		}
		if at+8 > len(text) {
			continue
		}
		longest := e.matches(s, text, at, hashBits)
		switch {
		case end > at: // the place after a match's first
			at, end = end-1, 0
		case longest >= enough:
			end = at + longest
		}
	}
	e.walk(s, text, ways)
}

// matches offers all matches at a place, and returns the length of the longest.
func (e *Encoder) matches(s *scratch, text []byte, at int, hashBits uint) (longest int) {
	v := load(text, at)
	longest = minNear - 1
	near := &s.near[v<<(64-8*minNear)*0xcf1bbcdcbb000000>>(64-hashBits)]
	s.before[at] = *near
	place := *near
	*near = uint16(at + 1)
	for range maxNear {
		if place == 0 {
			break
		}
		i := int(place) - 1
		if (load(text, i)^v)<<(64-8*minNear) == 0 {
			if n := common(text[i:], text[at:]); n > longest {
				s.offer(at, n, at-i)
				longest = n
			}
		}
		place = s.before[i]
	}
	if longest >= enough {
		return longest
	}
	h, check := hashFar(v)
	places := e.index.places[e.index.first[h]:e.index.first[h+1]]
	for _, p := range places[:min(len(places), maxFar)] {
		if i := int(p.at); p.check == check {
			if n := common(e.dictionary[i:], text[at:]); n > longest {
				s.offer(at, n, at+len(e.dictionary)-i)
				longest = n
			}
		}
	}
	return longest
}

// offer notes where a match leads to.
func (p *parser) offer(at, length, offset int) {
	cost := p.ways[at].cost + sequenceCost + uint32(bits.Len(uint(offset)))
	if w := &p.ways[at+length]; cost < w.cost {
		*w = way{cost, uint32(offset), uint32(length)}
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
	offsets := e.start
	from := 0 // of the literals
	for i := len(steps) - 1; i >= 0; i-- {
		end := int(steps[i])
		length, offset := int(ways[end].length), int(ways[end].offset)
		literals := text[from : end-length]
		s.text = append(s.text, literals...)
		s.sequences = append(s.sequences, sequence{
			codeLiterals(len(literals)), codeMatch(length), codeOffset(offsets.code(offset, len(literals))),
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
