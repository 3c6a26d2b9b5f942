package booking

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/examples/trip/service"
)

func TestServicesRedirectNowhere(t *testing.T) {
	var others atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { others.Add(1) }))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		hotel := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+r.URL.Path, status)
		}))
		s := newSupplier(hotel.URL, "hotel", "confirm-hotel")
		_, err := s.hold.Do(t.Context(), "key", service.Request{})
		assert.ErrorContains(t, err, http.StatusText(status))
		assert.Error(t, s.release(t.Context(), "key"))
		hotel.Close()
	}
	assert.Zero(t, others.Load())
}

// A request to hold that is repeated late, when a part of the hold was confirmed, has the result of the first.
func TestLateHoldsAreAsTheyWere(t *testing.T) {
	bank, err := service.Open(t.Context(), service.Options{Database: filepath.Join(t.TempDir(), "bank.db"), Price: 2, Capacity: 1000, Lifetime: time.Hour})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, bank.Close()) })
	running := httptest.NewServer(bank.Handler())
	t.Cleanup(running.Close)
	s := newBank(running.URL)
	hold := func() service.Hold {
		h, err := s.hold.Do(t.Context(), "key", service.Request{Item: "account", Units: 500, Reference: "saga"})
		require.NoError(t, err)
		return h
	}
	first := hold()
	assert.Equal(t, 1000, first.Amount)
	_, err = s.confirm.Do(t.Context(), "other", part{"key", 100})
	require.NoError(t, err)
	assert.Equal(t, first, hold())
}
