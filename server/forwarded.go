package server

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ForwardedKey returns an [Options.CallerKey] for a server behind proxies: the address
// that they report in X-Forwarded-For. Each proxy is an address or a network, such as
// 10.0.0.0/8.
//
// Callers can send that header as well, so it counts only on a connection that comes
// from one of these, and only the last address in it that is none of these: that is the
// one which a proxy has seen. What is left of it is a caller's own word. A connection
// from elsewhere is told apart by its own address, as by default.
func ForwardedKey(proxies ...string) (func(*http.Request) string, error) {
	var networks []netip.Prefix
	for _, p := range proxies {
		network, err := netip.ParsePrefix(p)
		if err != nil {
			addr, e := netip.ParseAddr(p)
			if e != nil || addr.Zone() != "" {
				return nil, fmt.Errorf("server: %q is no address or network of a proxy, such as 10.0.0.7 or 10.0.0.0/8", p)
			}
			network = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen())
		}
		if network.Bits() == 0 {
			return nil, fmt.Errorf("server: the network %s trusts everybody, and every caller could take any address", p)
		}
		networks = append(networks, network.Masked())
	}
	trusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(a) })
	}
	return func(r *http.Request) string {
		if from, ok := hopAddress(r.RemoteAddr); !ok || !trusted(from) {
			return publicAddress(r)
		}
		for _, line := range slices.Backward(r.Header.Values("X-Forwarded-For")) {
			for more := true; more; {
				hop := line
				if i := strings.LastIndexByte(line, ','); i >= 0 {
					line, hop = line[:i], line[i+1:]
				} else {
					more = false
				}
				addr, ok := hopAddress(strings.TrimSpace(hop))
				if !ok {
					return "" // a proxy that does not know
				}
				if !trusted(addr) {
					return addressKey(addr)
				}
			}
		}
		return ""
	}, nil
}

// hopAddress reads an address with or without a port.
func hopAddress(text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(strings.Trim(text, "[]"))
	if err != nil {
		var both netip.AddrPort
		if both, err = netip.ParseAddrPort(text); err == nil {
			addr = both.Addr()
		}
	}
	return addr.Unmap().WithZone(""), err == nil
}

// addressKey is what tells apart callers by their addresses: of IPv6 the network that
// one customer gets, to use all of it.
func addressKey(addr netip.Addr) string {
	if addr.Is6() {
		network, _ := addr.Prefix(64)
		return network.String()
	}
	return addr.String()
}
