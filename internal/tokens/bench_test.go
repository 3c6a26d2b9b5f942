package tokens_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"testing"

	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

func BenchmarkSeal(b *testing.B) {
	c := newCodec(b, newKeyset(b), tokens.Options{Audience: "https://tools.example.com"})
	for _, s := range states {
		b.Run(s.name, func(b *testing.B) {
			x := sample(s.state)
			token := seal(b, c, alice, x)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Seal(alice, noon, x); err != nil {
					b.Fatal(err)
				}
			}
			reportSizes(b, s.state, token)
		})
	}
}

// reportSizes prints the token's length and what the others take.
func reportSizes(b *testing.B, state, token string) {
	b.ReportMetric(float64(len(token)), "chars")
	for _, p := range peers {
		b.ReportMetric(float64(p.length(state)), p.name+"-chars")
		if p.name == "typescript" {
			b.ReportMetric(float64(len(token))/float64(p.length(state)), "of-"+p.name)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	c := newCodec(b, newKeyset(b), tokens.Options{Audience: "https://tools.example.com"})
	for _, s := range states {
		token := seal(b, c, alice, sample(s.state))
		b.Run(s.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Open(alice, noon, token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOpenParallel(b *testing.B) {
	c := newCodec(b, newKeyset(b), tokens.Options{})
	token := seal(b, c, alice, sample(mediumState))
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.Open(alice, noon, token); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkRefuse is what a token costs that nobody sealed.
func BenchmarkRefuse(b *testing.B) {
	c := newCodec(b, newKeyset(b), tokens.Options{})
	good := seal(b, c, alice, sample(mediumState))
	forged := good[:30] + flip(good[30]) + good[31:]
	unknown := seal(b, newCodec(b, newKeyset(b), tokens.Options{}), alice, sample(mediumState))
	for name, token := range map[string]string{"forged": forged, "unknown-key": unknown} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Open(alice, noon, token); err == nil {
					b.Fatal("opened")
				}
			}
		})
	}
}

// BenchmarkBare compares opening with the least one could do by hand: AES-256-GCM,
// base64 and encoding/json of the standard library, without claims or limits. It
// prints both times as parts of that.
func BenchmarkBare(b *testing.B) {
	c := newCodec(b, newKeyset(b), tokens.Options{Audience: "https://tools.example.com"})
	for _, s := range states {
		b.Run(s.name, func(b *testing.B) {
			bare := newBare(b)
			bareToken := bare.seal(b, s.state)
			token := seal(b, c, alice, sample(s.state))
			// Taking turns makes all three feel the same disturbances.
			var times [3]float64
			for b.Loop() {
				for i, open := range [...]func() error{
					func() error { return bare.open(bareToken, s.typed()) },
					func() error { _, err := c.Open(alice, noon, token); return err },
					func() error {
						x, err := c.Open(alice, noon, token)
						if err != nil {
							return err
						}
						return json.Unmarshal(x.State, s.typed())
					},
				} {
					start := now()
					if err := open(); err != nil {
						b.Fatal(err)
					}
					times[i] += float64(now() - start)
				}
			}
			n := float64(b.N)
			b.ReportMetric(times[0]/n, "bare-ns")
			b.ReportMetric(times[1]/n, "open-ns")
			b.ReportMetric(times[2]/n, "decoded-ns")
			b.ReportMetric(times[1]/times[0], "open/bare")
			b.ReportMetric(times[2]/times[0], "decoded/bare")
		})
	}
}

type bareCodec struct{ cipher.AEAD }

func newBare(b *testing.B) bareCodec {
	key := make([]byte, 32)
	_, _ = rand.Read(key)
	block, err := aes.NewCipher(key)
	if err != nil {
		b.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		b.Fatal(err)
	}
	return bareCodec{gcm}
}

func (c bareCodec) seal(b *testing.B, state string) string {
	nonce := make([]byte, c.NonceSize())
	_, _ = rand.Read(nonce)
	return base64.RawURLEncoding.EncodeToString(c.Seal(nonce, nonce, []byte(state), nil))
}

func (c bareCodec) open(token string, v any) error {
	sealed, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return err
	}
	n := c.NonceSize()
	plain, err := c.Open(nil, sealed[:n], sealed[n:], nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(plain, v)
}

// BenchmarkParts is what it costs to keep half of a state apart from the other, beside
// the same state as a whole.
func BenchmarkParts(b *testing.B) {
	c := newCodec(b, newKeyset(b), tokens.Options{Audience: "https://tools.example.com"})
	for _, s := range states[:2] {
		whole, apart := sample(s.state), sample(s.state[:len(s.state)/2])
		apart.Apart = []byte(s.state[len(s.state)/2:])
		for name, x := range map[string]*tokens.Contents{"whole": whole, "apart": apart} {
			token := seal(b, c, alice, x)
			b.Run(s.name+"/"+name+"/seal", func(b *testing.B) {
				for b.Loop() {
					if _, err := c.Seal(alice, noon, x); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(len(token)), "chars")
			})
			b.Run(s.name+"/"+name+"/open", func(b *testing.B) {
				for b.Loop() {
					if _, err := c.Open(alice, noon, token); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
