package tokens_test

import (
	"bytes"
	"compress/flate"
	"strings"
)

// peer is another format for the same purpose, and how many characters it takes
// for a state of so many bytes. The formulas count what each format adds: headers,
// claims, nonce, tag and encodings.
type peer struct {
	name   string
	length func(state string) int
}

// unpaddedBase64 is the length of n bytes in unpadded base64.
func unpaddedBase64(n int) int { return (n*4 + 2) / 3 }

// paddedBase64 is the length of n bytes in padded base64.
func paddedBase64(n int) int { return (n + 2) / 3 * 4 }

var peers = []peer{
	{"typescript", func(s string) int {
		// "v1.", a JSON envelope with payload, expiry and binding, a 32-byte MAC.
		return len("v1.") + unpaddedBase64(len(s)+len(`{"p":,"exp":1234567890,"b":"1234567890123456789012"}`)) + 1 + unpaddedBase64(32)
	}},
	{"python", func(s string) int {
		// The state as a JSON string, with some 231 bytes of claims and framing.
		return unpaddedBase64(len(s) + strings.Count(s, `"`) + strings.Count(s, `\`) + 231)
	}},
	{"jwe", func(s string) int {
		header := len(`{"alg":"dir","enc":"A256GCM","kid":"k1"}`)
		return unpaddedBase64(header) + 4 + unpaddedBase64(12) + unpaddedBase64(len(s)) + unpaddedBase64(16)
	}},
	{"jwe-def", func(s string) int {
		header := len(`{"alg":"dir","enc":"A256GCM","kid":"k1","zip":"DEF"}`)
		return unpaddedBase64(header) + 4 + unpaddedBase64(12) + unpaddedBase64(flated(s)) + unpaddedBase64(16)
	}},
	{"paseto-v4", func(s string) int {
		// A nonce of 32 bytes, a MAC of 32, and the payload with an RFC 3339 expiry.
		return len("v4.local.") + unpaddedBase64(32+len(s)+35+32)
	}},
	{"securecookie", func(s string) int {
		// Base64 of: time, base64 of IV and ciphertext, MAC of 32 bytes.
		return paddedBase64(10 + 1 + paddedBase64(16+len(s)) + 1 + 32)
	}},
	{"fernet", func(s string) int {
		// Version, time, IV, blocks of 16 bytes with padding, MAC.
		return paddedBase64(1 + 8 + 16 + (len(s)/16+1)*16 + 32)
	}},
}

// flated is the size of s as flate compresses it.
func flated(s string) int {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.DefaultCompression)
	if err == nil {
		_, err = w.Write([]byte(s))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return 0
	}
	return out.Len()
}
