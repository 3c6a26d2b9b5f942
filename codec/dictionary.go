package codec

import _ "embed"

// dictionary1 is the zstd dictionary with the number 1: the vocabulary of MCP
// and of JSON in general, field names that tools often keep, and common English,
// with entropy tables for text of that kind. See internal/mkdict for its sources.
//
// A dictionary is part of the token format and is frozen for ever once a token
// was sealed with it. A better one gets the next number and the next coding; this
// one stays, because tokens in flight need it, and so do the frozen tokens of the
// tests.
//
//go:embed dictionary1.zdict
var dictionary1 []byte
