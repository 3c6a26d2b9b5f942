package shortblock

import (
	"encoding/binary"
	"errors"
	"math/bits"
)

// FSE is the entropy coder of the sequences (RFC 8878, section 4.1). A table is
// described by how often each symbol occurs among 1<<log of them.

var errTable = errors.New("shortblock: the dictionary's tables do not decode")

// maxLog is the largest accuracy that zstd's tables for sequences have.
const maxLog = 9

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
	symbols []symbol
}

type symbol struct {
	deltaBits  uint32
	deltaState int32
	used       bool
}

// newTable builds the table that a decoder builds from the same description: it
// spreads the symbols over the states in the order that the format prescribes.
func newTable(counts []int, log int) table {
	size := 1 << log
	t := table{uint32(log), make([]uint16, size), make([]symbol, len(counts))}
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
			t.symbols[s] = symbol{uint32(width)<<16 - uint32(n)<<width, int32(total - n), true}
			total += n
		}
	}
	for state, s := range states {
		t.next[first[s]] = uint16(size + state)
		first[s]++
	}
	return t
}

func (t *table) has(s uint8) bool { return int(s) < len(t.symbols) && t.symbols[s].used }

// begin returns the state that encodes the last symbol.
func (t *table) begin(s uint8) uint32 {
	x := t.symbols[s]
	width := (x.deltaBits + 1<<15) >> 16
	value := width<<16 - x.deltaBits
	return uint32(t.next[int32(value>>width)+x.deltaState])
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

// add takes the lowest width bits of v. Up to 56 may be added between two flushes.
func (w *bitWriter) add(v, width uint32) {
	w.bits |= uint64(v) & (1<<width - 1) << w.n
	w.n += width
}

// flush leaves less than 8 bits.
func (w *bitWriter) flush() {
	for w.n >= 8 {
		w.out = append(w.out, byte(w.bits))
		w.bits >>= 8
		w.n -= 8
	}
}

// close marks the end, from which decoders begin.
func (w *bitWriter) close() []byte {
	w.add(1, 1)
	w.n += 7
	w.flush()
	return w.out
}
