package tokens

import "math/bits"

// paddedSize returns the size to which n bytes are padded, as PADMÉ does
// (Nikitin et al., "Reducing Metadata Leakage from Encrypted Files and
// Communication with PURBs", 2019): sizes keep only as many significant bits as
// their logarithm has, so a size tells at most O(log log n) bits and grows by at
// most 12 %.
func paddedSize(n int) int {
	if n < 2 {
		return n
	}
	exponent := bits.Len(uint(n)) - 1
	drop := exponent - bits.Len(uint(exponent))
	if drop <= 0 {
		return n
	}
	mask := 1<<drop - 1
	return (n + mask) &^ mask
}

// appendPadding ends a plaintext: the mark, then zeros up to the padded size.
func appendPadding(plain []byte) []byte {
	plain = append(plain, paddingMark)
	if n := paddedSize(len(plain)) - len(plain); n > 0 {
		plain = append(plain, make([]byte, n)...)
	}
	return plain
}
