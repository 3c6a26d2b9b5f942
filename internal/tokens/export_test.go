package tokens

import "time"

// Layout is how a token holds what it holds.
type Layout struct {
	// Sealed is the size of all that is sealed, Padding how much of it hides the true size, and Body the size of the
	// state as stored, in bytes.
	Sealed, Padding, Body int
	// Coding and ApartCoding say how State and Apart are stored. The latter is empty if there is no Apart.
	Coding, ApartCoding string
}

var codingNames = [...]string{"raw", "zstd", "zstd dictionary 1", "zstd dictionary 2", "deflate"}

// Layout returns the layout of a token that the codec opens.
func (c *Codec) Layout(b Binding, now time.Time, token string) Layout {
	o := new(opened)
	_, _ = c.open(o, b, now, token)
	sealed, _, _ := decodeToken(new(buffers), token)
	l := Layout{Sealed: len(sealed), Padding: o.padding, Body: len(o.body), Coding: codingNames[o.coding]}
	if len(o.apart) > 0 {
		l.ApartCoding = codingNames[o.apartCoding]
	}
	return l
}

// Open opens a token that is presented in time.
func (c *Codec) Open(b Binding, now time.Time, token string) (*Contents, error) {
	x, untimely, err := c.OpenAnyTime(b, now, token)
	if err != nil {
		return nil, err
	}
	if untimely != nil {
		return nil, untimely
	}
	return &x, nil
}
