package shortblock

import "math/bits"

// sequence is some literals and then a match, coded.
type sequence struct{ literals, length, offset coded }

// recent are the offsets used last, which have short codes (RFC 8878, 3.1.1.5).
type recent [3]int

// code returns how an offset is coded after so many literals, and remembers it.
func (r *recent) code(offset, literals int) uint32 {
	old := *r
	switch offset {
	case old[0]:
		if literals > 0 {
			return 1
		}
	case old[1]:
		*r = recent{old[1], old[0], old[2]}
		if literals > 0 {
			return 2
		}
		return 1
	case old[2]:
		*r = recent{old[2], old[0], old[1]}
		if literals > 0 {
			return 3
		}
		return 2
	}
	*r = recent{offset, old[0], old[1]}
	return uint32(offset) + 3
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

func codeLiterals(n int) coded { return code(uint32(n), 16, 0, literalCodes[:]) }

func codeMatch(n int) coded { return code(uint32(n), 35, minMatch, matchCodes[:]) }

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

// codeOffset codes what recent.code returned.
func codeOffset(v uint32) coded {
	n := uint32(bits.Len32(v) - 1)
	return coded{uint8(n), v - 1<<n, n}
}

// Tables of the format itself, for symbols that the dictionary's lack (RFC 8878,
// section 3.1.1.3.2.2).
var (
	predefinedLiterals = newTable([]int{4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1}, 6)
	predefinedLengths  = newTable([]int{1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1}, 6)
	predefinedOffsets  = newTable([]int{1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1}, 5)
)

// tables are those that a block's sequences are coded with.
type tables struct{ literals, lengths, offsets *table }

// The bits of a block's modes; all of them are set if the dictionary's tables are used.
const (
	literalsMode = 3 << 6
	offsetsMode  = 3 << 4
	lengthsMode  = 3 << 2
	allModes     = literalsMode | offsetsMode | lengthsMode
)

// tablesFor returns the dictionary's tables as far as they have all symbols, and
// their modes as a byte: 0 is predefined, 3 the dictionary's.
func (e *Encoder) tablesFor(list []sequence) (t tables, modes byte) {
	t = tables{&e.literals, &e.lengths, &e.offsets}
	modes = allModes
	for i := range list {
		s := &list[i]
		if !t.literals.has(s.literals.symbol) {
			t.literals, modes = &predefinedLiterals, modes&^literalsMode
		}
		if !t.offsets.has(s.offset.symbol) {
			t.offsets, modes = &predefinedOffsets, modes&^offsetsMode
		}
		if !t.lengths.has(s.length.symbol) {
			t.lengths, modes = &predefinedLengths, modes&^lengthsMode
		}
	}
	return t, modes
}

// appendSequences writes the sequences' section of a block (RFC 8878, 3.1.1.3.2).
func (e *Encoder) appendSequences(dst []byte, list []sequence) []byte {
	if n := len(list); n < 128 {
		dst = append(dst, byte(n))
	} else {
		dst = append(dst, byte(n>>8)+128, byte(n))
	}
	if len(list) == 0 {
		return dst
	}
	t, modes := e.tablesFor(list)
	w := bitWriter{out: append(dst, modes)}
	// Decoders read from the end, so the last sequence is written first.
	last := &list[len(list)-1]
	lengths, offsets, literals := t.lengths.begin(last.length.symbol), t.offsets.begin(last.offset.symbol), t.literals.begin(last.literals.symbol)
	for i := len(list) - 1; i >= 0; i-- {
		s := &list[i]
		if s != last {
			offsets = t.offsets.put(&w, offsets, s.offset.symbol)
			lengths = t.lengths.put(&w, lengths, s.length.symbol)
			literals = t.literals.put(&w, literals, s.literals.symbol)
			w.flush()
		}
		w.add(s.literals.value, s.literals.extra)
		w.add(s.length.value, s.length.extra)
		w.add(s.offset.value, s.offset.extra)
		w.flush()
	}
	w.add(lengths, t.lengths.log)
	w.add(offsets, t.offsets.log)
	w.add(literals, t.literals.log)
	w.flush()
	return w.close()
}
