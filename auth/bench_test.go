package auth_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/auth"
)

// What it costs to find out who calls: with a token that is remembered, with one that is not, and with bad ones.
func BenchmarkAuthenticate(b *testing.B) {
	i, forger := newIssuer(b), newIssuer(b)
	tokens := func(from *issuer, changes claims) (all []*http.Request) {
		for range 100 {
			all = append(all, bearing(from.sign(b, i.claims(changes), "at+jwt")))
		}
		return all
	}
	forget := func(o *auth.JWT) { o.Remember = -time.Second }
	unknown := newIssuer(b)
	unknown.add(b, "unknown")
	for _, c := range []struct {
		name   string
		change func(*auth.JWT)
		with   []*http.Request
		good   bool
	}{
		{"remembered", nil, tokens(i, nil), true},
		{"verified", forget, tokens(i, nil), true},
		{"forged", forget, tokens(forger, nil), false},
		{"unknown key", forget, tokens(unknown, nil), false},
		{"another issuer", forget, tokens(i, claims{"iss": "https://other.example.com"}), false},
	} {
		b.Run(c.name, func(b *testing.B) {
			g := newGuard(b, auth.Options{Methods: []auth.Method{i.method(b, c.change)}})
			_, err := g.Authenticate(bearing(i.sign(b, i.claims(nil), "")))
			require.NoError(b, err)
			before := i.fetches.Load()
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if _, err := g.Authenticate(c.with[n%len(c.with)]); (err == nil) != c.good {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(i.fetches.Load()-before), "fetches")
		})
	}
}
