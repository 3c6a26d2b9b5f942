package server

import (
	"net/http"
	"net/netip"
)

// owner says on whose account sessions and subscriptions are counted, so that one
// caller cannot take what is there for all: the principal's, or that of an anonymous
// caller's key. Those without a key are not told apart, and share what is there.
func (s *Server) owner(p Principal, r *http.Request) string {
	if p != Anonymous {
		return "principal " + p.binding()
	}
	if key := s.opts.CallerKey(r); key != "" {
		return "key " + key
	}
	return ""
}

// publicAddress is the default of [Options.CallerKey].
func publicAddress(r *http.Request) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	addr := from.Addr().Unmap().WithZone("")
	if !addr.IsGlobalUnicast() || addr.IsPrivate() {
		return "" // perhaps a proxy's
	}
	return addressKey(addr)
}
