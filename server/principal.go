package server

import "encoding/binary"

// Principal is who sends a request, as far as a verified credential says so.
// The zero value is [Anonymous].
type Principal struct {
	// Issuer is who vouches for the subject, such as an OAuth issuer's URL.
	Issuer string
	// Subject is the user, unique at the issuer.
	Subject string
	// Client is the client application, or empty.
	Client string
}

// Anonymous is the principal of requests without credentials.
var Anonymous = Principal{}

// binding returns the principal as one string in which no two principals look
// the same.
func (p Principal) binding() string {
	if p == Anonymous {
		return ""
	}
	var b []byte
	for _, s := range []string{p.Issuer, p.Subject, p.Client} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return string(b)
}
