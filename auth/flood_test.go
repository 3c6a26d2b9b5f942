package auth_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/auth"
)

// badTokens make tokens of which no two are the same, from a good one, by what is wrong with them.
func badTokens(good string) map[string]func() string {
	parts := strings.Split(good, ".")
	text := func(n int) string {
		raw := make([]byte, n)
		for i := range raw {
			raw[i] = byte(rand.Uint32())
		}
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	return map[string]func() string{
		"signature": func() string { return parts[0] + "." + parts[1] + "." + text(64) },
		"key": func() string {
			header := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"alg":"ES256","kid":"%d"}`, rand.Uint64()))
			return header + "." + parts[1] + "." + text(64)
		},
		"no key": func() string {
			return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256"}`)) + "." + parts[1] + "." + text(64)
		},
		"text": func() string { return text(90) },
	}
}

func bearingFrom(address, token string) *http.Request {
	return request("From", address, "Authorization", "Bearer "+token)
}

// A flood of bad tokens, of all kinds, reaches the issuer a bounded number of times, from one address or many; who comes from
// elsewhere, or is known, is served meanwhile.
func TestBadTokensAreBounded(t *testing.T) {
	i := newIssuer(t)
	good := i.sign(t, i.claims(nil), "")
	kinds := badTokens(good)
	for _, opaque := range []bool{false, true} {
		for _, many := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				var asked, checked atomic.Int32
				limits := auth.Checking{MaxBad: 50, CallerKey: func(r *http.Request) string { return r.Header.Get("From") }}
				m := introspecting(t, &asked, func(token string) claims {
					time.Sleep(10 * time.Millisecond) // so that several are under way
					if strings.HasPrefix(token, "good") {
						return active(nil)
					}
					return claims{"active": false}
				}, func(o *auth.Introspection) {
					limits.Client = o.Client
					o.Checking = limits
				})
				flood, isGood := []string{"text"}, func(n int) string { return fmt.Sprint("good", n) }
				if !opaque {
					m = i.method(t, func(o *auth.JWT) {
						o.Checking, o.FetchEvery = limits, 30*time.Second
						o.Client = &http.Client{Transport: i.transport(&asked)}
					})
					flood, isGood = []string{"signature", "key", "no key"}, func(n int) string { return i.sign(t, i.claims(claims{"n": n, "exp": int64(1 << 36)}), "") }
				}
				_, err := m.Identify(bearingFrom("203.0.113.1", isGood(0)))
				require.NoError(t, err)
				before := asked.Load()
				known := isGood(1)
				_, err = m.Identify(bearingFrom("203.0.113.1", known))
				require.NoError(t, err)
				const seconds, rate, together = 10, 400, 16
				began := time.Now()
				for n := range seconds {
					var all sync.WaitGroup
					for w := range together {
						all.Go(func() {
							for k := range rate / together {
								from := "198.51.100.1"
								if many {
									from = fmt.Sprintf("198.51.%d.%d", n, w*together+k)
								}
								_, err := m.Identify(bearingFrom(from, kinds[flood[k%len(flood)]]()))
								if err == nil || !strings.Contains(err.Error(), "of no use have been sent") {
									checked.Add(1)
								}
								assert.Error(t, err)
								time.Sleep(time.Second * together / rate)
							}
						})
					}
					all.Wait()
					_, err := m.Identify(bearingFrom("203.0.113.1", known))
					require.NoError(t, err, "who is known is served")
					if !many {
						_, err = m.Identify(bearingFrom("203.0.113.1", isGood(2+n)))
						require.NoError(t, err, "and who has sent nothing bad")
					}
				}
				aSecond := 5.0 // of one address
				if many {
					aSecond = 50
				}
				most := 50 + int(aSecond*time.Since(began).Seconds())
				assert.LessOrEqual(t, int(checked.Load()), most+together)
				assert.Greater(t, int(checked.Load()), most/2)
				if opaque {
					assert.LessOrEqual(t, int(asked.Load()-before), most+together+seconds+1)
				} else {
					assert.Zero(t, asked.Load()-before, "its keys are fetched seldom")
				}
			})
		}
	}
}

// A flood at one issuer's method is nothing to the users of another, and tokens of neither cost no more than to be read.
func TestTokensOfOtherIssuersMeetNoBounds(t *testing.T) {
	a, b := newIssuer(t), newIssuer(t)
	bounded := func(o *auth.JWT) {
		o.MaxBad, o.MaxChecks, o.CallerKey = 10, 1, func(r *http.Request) string { return r.Header.Get("From") }
	}
	first := a.method(t, bounded)
	g := newGuard(t, auth.Options{Methods: []auth.Method{first, b.method(t, bounded)}})
	known := b.sign(t, b.claims(nil), "")
	_, err := g.Authenticate(bearing(known))
	require.NoError(t, err)
	bad := badTokens(a.sign(t, a.claims(nil), ""))["signature"]
	require.Eventually(t, func() bool {
		_, err := g.Authenticate(bearingFrom(fmt.Sprint(rand.Uint64()), bad()))
		return strings.Contains(err.Error(), "of no use have been sent")
	}, 10*time.Second, time.Microsecond)
	for _, token := range []string{known, b.sign(t, b.claims(claims{"n": 1}), "")} {
		_, err = g.Authenticate(bearing(token))
		require.NoError(t, err)
	}
	foreign := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".AAAA"
	}
	for _, token := range []string{"e30.?.AAAA", "e30..AAAA", foreign("{"), foreign("[]"), foreign(`{"iss":{}}`), foreign(`{"iss":""}`)} {
		_, err = first.Identify(bearing(token))
		require.ErrorIs(t, err, auth.ErrNone, token)
		_, err = g.Authenticate(bearing(token))
		assert.Equal(t, 401, refusal(t, err).Status, token)
	}
	long := bearing(foreign(`{"x":[` + strings.Repeat(`{"y":{}},`, 1200) + `{}],"iss":"https://other.example.com"}`))
	assert.Less(t, testing.AllocsPerRun(100, func() { _, err = first.Identify(long) }), 20.0)
	require.ErrorIs(t, err, auth.ErrNone)
}
