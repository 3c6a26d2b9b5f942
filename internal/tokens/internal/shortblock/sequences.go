package shortblock

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// sequence is some literals and then a match, coded.
type sequence struct{ literals, length, offset coded }

// recent are the offsets used last, which have short codes (RFC 8878, 3.1.1.5).
type recent [3]int

// code codes an offset after so many literals, and remembers it.
func (r *recent) code(offset, literals int) coded {
	old, again := *r, 0 // which of the three it is, from 1 on
	switch offset {
	case old[0]:
		if literals > 0 {
			return coded{}
		}
	case old[1]:
		*r, again = recent{old[1], old[0], old[2]}, 2
	case old[2]:
		*r, again = recent{old[2], old[0], old[1]}, 3
	}
	v := uint32(again)
	switch {
	case again == 0:
		*r = recent{offset, old[0], old[1]}
		v = uint32(offset) + 3
	case literals == 0:
		v-- // the first one cannot be meant
	}
	n := uint32(bits.Len32(v) - 1)
	return coded{uint8(n), v - 1<<n, n}
}

// baseline is the first value of a code with extra bits, and how many those are.
type baseline struct{ from, extra uint32 }

var literalCodes = [...]baseline{
	{16, 1}, {18, 1}, {20, 1}, {22, 1}, {24, 2}, {28, 2}, {32, 3}, {40, 3}, {48, 4}, {64, 6}, {128, 7}, {256, 8}, {512, 9},
	{1024, 10}, {2048, 11},
}

var matchCodes = [...]baseline{
	{35, 1}, {37, 1}, {39, 1}, {41, 1}, {43, 2}, {47, 2}, {51, 3}, {59, 3}, {67, 4}, {83, 4}, {99, 5}, {131, 7}, {259, 8}, {515, 9},
	{1027, 10}, {2051, 11},
}

// coded is a value as a symbol and extra bits.
type coded struct {
	symbol uint8
	value  uint32
	extra  uint32
}

// minMatch is the shortest match of the format.
const minMatch = 3

// code codes n: below direct each value has a symbol of its own, from first on.
func code(n, direct, first uint32, codes []baseline) coded {
	if n < direct {
		return coded{symbol: uint8(n - first)}
	}
	i := len(codes) - 1
	for codes[i].from > n {
		i--
	}
	return coded{uint8(direct-first) + uint8(i), n - codes[i].from, codes[i].extra}
}

// Tables of the format itself, for symbols that the dictionary's lack (RFC 8878,
// section 3.1.1.3.2.2).
var (
	predefinedLiterals = newTable([]int{4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1}, 6)
	predefinedLengths  = newTable([]int{1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1}, 6)
	predefinedOffsets  = newTable([]int{1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1}, 5)
)

// The bits of a block's modes; all of them are set if the dictionary's tables are used.
const (
	literalsMode = 3 << 6
	offsetsMode  = 3 << 4
	lengthsMode  = 3 << 2
	allModes     = literalsMode | offsetsMode | lengthsMode
)

// appendSequences writes the sequences' section of a block (RFC 8878, 3.1.1.3.2), with the
// dictionary's tables as far as they have all symbols.
func (e *Encoder) appendSequences(dst []byte, list []sequence) []byte {
	if n := len(list); n < 128 {
		dst = append(dst, byte(n))
	} else {
		dst = append(dst, byte(n>>8)+128, byte(n))
	}
	if len(list) == 0 {
		return dst
	}
	t, modes := e.tables, byte(allModes)
	for i := range list {
		s := &list[i]
		if !t.literals.symbols[s.literals.symbol].used {
			t.literals, modes = &predefinedLiterals, modes&^literalsMode
		}
		if !t.offsets.symbols[s.offset.symbol].used {
			t.offsets, modes = &predefinedOffsets, modes&^offsetsMode
		}
		if !t.lengths.symbols[s.length.symbol].used {
			t.lengths, modes = &predefinedLengths, modes&^lengthsMode
		}
	}
	w := bitWriter{out: append(dst, modes)}
	// Decoders read from the end, so the last sequence is written first.
	n := len(list) - 1
	last := &list[n]
	lengths, offsets, literals := t.lengths.symbols[last.length.symbol].begin, t.offsets.symbols[last.offset.symbol].begin, t.literals.symbols[last.literals.symbol].begin
	for i := n; i >= 0; i-- {
		s := &list[i]
		if i < n {
			offsets = t.offsets.put(&w, offsets, s.offset.symbol)
			lengths = t.lengths.put(&w, lengths, s.length.symbol)
			literals = t.literals.put(&w, literals, s.literals.symbol)
		}
		w.add(s.literals.value, s.literals.extra)
		w.add(s.length.value, s.length.extra)
		w.add(s.offset.value, s.offset.extra)
	}
	w.add(lengths, t.lengths.log)
	w.add(offsets, t.offsets.log)
	w.add(literals, t.literals.log)
	w.add(1, 1) // marks the end, from which decoders begin
	for ; int32(w.n) > 0; w.n -= 8 {
		w.out = append(w.out, byte(w.bits))
		w.bits >>= 8
	}
	return w.out
}

// FSE is the entropy coder of the sequences (RFC 8878, section 4.1). A table is
// described by how often each symbol occurs among 1<<log of them.

var errTable = errors.New("shortblock: the dictionary's tables do not decode")

// maxLog is the largest accuracy that zstd's tables for sequences have, and maxSymbols
// how many symbols those have that have the most.
const maxLog, maxSymbols = 9, 53

// readCounts reads a table's description and returns what follows it.
func readCounts(b []byte, maxSymbol int) (counts []int, log int, rest []byte, err error) {
	if len(b) < 1 {
		return nil, 0, nil, errTable
	}
	pos := 0 // in bits
	take := func(n int) int {
		var window [8]byte
		copy(window[:], b[min(pos/8, len(b)):])
		v := binary.LittleEndian.Uint64(window[:]) >> (pos % 8) & (1<<n - 1)
		pos += n
		return int(v)
	}
	log = take(4) + 5
	if log > maxLog {
		return nil, 0, nil, errTable
	}
	for left := 1 << log; left > 0; {
		// A value is from 0 to left+1; the small ones take a bit less.
		width := bits.Len(uint(left + 1))
		v := take(width - 1)
		if threshold := 1<<width - 1 - (left + 1); v >= threshold {
			if v += take(1) << (width - 1); v >= 1<<(width-1) {
				v -= threshold
			}
		}
		count := v - 1
		counts = append(counts, count)
		left -= max(count, -count)
		if count == 0 {
			for more := 3; more == 3; {
				more = take(2)
				counts = append(counts, make([]int, more)...)
			}
		}
		if left < 0 || len(counts) > maxSymbol+1 || pos > 8*len(b) {
			return nil, 0, nil, errTable
		}
	}
	return counts, log, b[(pos+7)/8:], nil
}

// table encodes symbols.
type table struct {
	log     uint32
	next    []uint16
	symbols [maxSymbols]symbol
}

type symbol struct {
	deltaBits  uint32
	deltaState int32
	begin      uint32 // the state that encodes it as the last one
	used       bool
}

// newTable builds the table that a decoder builds from the same description: it
// spreads the symbols over the states in the order that the format prescribes.
func newTable(counts []int, log int) table {
	size := 1 << log
	t := table{log: uint32(log), next: make([]uint16, size)}
	states := make([]int, size) // the symbol of each
	high := size - 1
	for s, n := range counts {
		if n == -1 { // less than one: a state at the end
			states[high] = s
			high--
		}
	}
	at, step := 0, size>>1+size>>3+3
	for s, n := range counts {
		for range max(n, 0) {
			states[at] = s
			for at = (at + step) & (size - 1); at > high; at = (at + step) & (size - 1) {
			}
		}
	}
	first := make([]int, len(counts))
	total := 0
	for s, n := range counts {
		first[s] = total
		n = max(n, -n)
		if n > 0 {
			width := log - bits.Len(uint(n-1)) + 1
			if n == 1 {
				width = log
			}
			t.symbols[s] = symbol{deltaBits: uint32(width)<<16 - uint32(n)<<width, deltaState: int32(total - n), used: true}
			total += n
		}
	}
	for state, s := range states {
		t.next[first[s]] = uint16(size + state)
		first[s]++
	}
	for i := range t.symbols {
		if x := &t.symbols[i]; x.used {
			width := (x.deltaBits + 1<<15) >> 16
			x.begin = uint32(t.next[int32((width<<16-x.deltaBits)>>width)+x.deltaState])
		}
	}
	return t
}

// put encodes a symbol: it writes the bits that lead from the new state to the old.
func (t *table) put(w *bitWriter, state uint32, s uint8) uint32 {
	x := t.symbols[s]
	width := (state + x.deltaBits) >> 16
	w.add(state, width)
	return uint32(t.next[int32(state>>width)+x.deltaState])
}

// bitWriter appends bits, the lowest first.
type bitWriter struct {
	out  []byte
	bits uint64
	n    uint32
}

// add takes the lowest width bits of v, up to 32.
func (w *bitWriter) add(v, width uint32) {
	w.bits |= uint64(v) & (1<<width - 1) << w.n
	if w.n += width; w.n >= 32 {
		w.out = binary.LittleEndian.AppendUint32(w.out, uint32(w.bits))
		w.bits >>= 32
		w.n -= 32
	}
}
