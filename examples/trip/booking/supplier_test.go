package booking

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"

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
