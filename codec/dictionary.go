package codec

import _ "embed"

// A dictionary of zstd holds what states are likely to contain, and entropy tables for text
// of that kind: the vocabulary of MCP and of JSON in general, field names and values of
// forms, and common English. See internal/mkdict.
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
