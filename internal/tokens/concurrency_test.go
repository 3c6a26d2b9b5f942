package tokens_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/codec"
	"github.com/mcpsaga/mcpsaga/internal/tokens"
)

func TestRotationUnderTraffic(t *testing.T) {
	one := newKeyset(t)
	two, id, err := one.Add(codec.AES256CTRHMACSHA256)
	require.NoError(t, err)
	three, err := two.Promote(id)
	require.NoError(t, err)
	c := newCodec(t, two, tokens.Options{})

	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				c.SetKeyset([]*codec.Keyset{two, three}[i%2])
			}
		}
	})
	var traffic sync.WaitGroup
	for worker := range 8 {
		traffic.Go(func() {
			for i := range 150 {
				x := sample(strings.Repeat(fmt.Sprintf(`{"worker":%d,"i":%d}`, worker, i), 1+i*i%1200))
				x.Secret = fmt.Appendf(nil, "secret of %d", worker)
				token, err := c.Seal(alice, noon, x)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := c.Open(alice, noon, token)
				if err != nil {
					t.Error(err)
					return
				}
				if string(got.State) != string(x.State) || string(got.Secret) != string(x.Secret) {
					t.Errorf("worker %d: contents of another token", worker)
				}
			}
		})
	}
	traffic.Wait()
	close(stop)
	wg.Wait()
}

// What Open returns must not share memory with the pools.
func TestContentsOutliveTheCall(t *testing.T) {
	c := newCodec(t, newKeyset(t), tokens.Options{})
	x := sample("raw~")
	x.Secret = []byte("secret")
	x.Claims.Request = []byte("digest")
	got, err := c.Open(alice, noon, seal(t, c, alice, x))
	require.NoError(t, err)
	got.State = append(got.State, "appended"...)
	for range 20 {
		_, err := c.Open(alice, noon, seal(t, c, alice, sample(mediumState)))
		require.NoError(t, err)
	}
	require.Equal(t, "raw~appended", string(got.State))
	require.Equal(t, "secret", string(got.Secret))
	require.Equal(t, "digest", string(got.Claims.Request))
}
