package engine

import "github.com/mcpsaga/mcpsaga/steps"

// The features that a pending step needs travel in tokens as bits. Tokens outlive
// programs: a bit never gets another meaning.

func packFeatures(f steps.Features) uint64 {
	var bits uint64
	for i, has := range [...]bool{f.Forms, f.Links, f.Sampling, f.SamplingTools, f.SamplingContext, f.Roots} {
		if has {
			bits |= 1 << i
		}
	}
	return bits
}

// unpackFeatures ignores bits that are not known.
func unpackFeatures(bits uint64) steps.Features {
	has := func(i int) bool { return bits>>i&1 == 1 }
	return steps.Features{Forms: has(0), Links: has(1), Sampling: has(2), SamplingTools: has(3), SamplingContext: has(4), Roots: has(5)}
}
