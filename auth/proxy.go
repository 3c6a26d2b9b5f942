package auth

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/mcpsaga/mcpsaga/saga"
)

// Proxy says what is believed of a proxy that authenticates callers and names them in headers. Networks, Issuer and
// Subject are required.
type Proxy struct {
	// Networks are the addresses of the proxy, each an address or a network, such as 10.0.0.0/8. Whatever else has one of them
	// can be anybody.
	Networks []string
	// Issuer is for whom the proxy speaks: it keeps its users apart from those of other methods.
	Issuer string
	// Subject, Client and Scopes are the headers that have these, such as "X-Forwarded-User". Scopes are separated by
	// spaces or commas. The proxy must remove them from what its callers send.
	Subject, Client, Scopes string
	// Claims are the headers of what else is known, by the name that tools know it by.
	Claims map[string]string
}

type proxyMethod struct {
	Proxy
	networks []netip.Prefix
}

// NewProxy returns a method that believes the headers of a proxy, on connections from its addresses only: what
// X-Forwarded-For says makes no difference.
func NewProxy(o Proxy) (Method, error) {
	if len(o.Networks) == 0 || o.Issuer == "" || o.Subject == "" {
		return nil, errors.New("auth: Proxy.Networks, Proxy.Issuer and Proxy.Subject are required")
	}
	m := &proxyMethod{Proxy: o}
	for _, n := range o.Networks {
		network, err := netip.ParsePrefix(n)
		if addr, e := netip.ParseAddr(n); e == nil && addr.Zone() == "" {
			network, err = netip.PrefixFrom(addr.Unmap(), addr.Unmap().BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("auth: %q is no address or network of a proxy, such as 10.0.0.7 or 10.0.0.0/8", n)
		}
		if addr := network.Addr(); addr.Is4In6() && network.Bits() >= 96 { // as addresses of connections are compared
			network = netip.PrefixFrom(addr.Unmap(), network.Bits()-96)
		}
		if network.Bits() == 0 {
			return nil, fmt.Errorf("auth: the network %s trusts everybody, and every caller could be anybody", n)
		}
		m.networks = append(m.networks, network.Masked())
	}
	return m, nil
}

func (m *proxyMethod) Identify(r *http.Request) (who saga.Caller, err error) {
	if !m.trusted(r.RemoteAddr) || len(r.Header.Values(m.Subject)) == 0 {
		return who, ErrNone
	}
	get := func(header string) string {
		values := r.Header.Values(header)
		if header == "" || len(values) == 0 {
			return ""
		}
		if len(values) > 1 { // perhaps one of the proxy and one of its caller
			err = fmt.Errorf("the proxy sent the header %s more than once", header)
		}
		return values[0]
	}
	who = saga.Caller{Issuer: m.Issuer, Subject: get(m.Subject), Client: get(m.Client)}
	who.Scopes = strings.FieldsFunc(get(m.Scopes), func(r rune) bool { return r == ' ' || r == ',' })
	for name, header := range m.Claims {
		if value := get(header); value != "" {
			if who.Claims == nil {
				who.Claims = map[string]string{}
			}
			who.Claims[name] = value
		}
	}
	if who.Subject == "" && err == nil {
		err = fmt.Errorf("the proxy sent an empty header %s", m.Subject)
	}
	return who, err
}

func (m *proxyMethod) trusted(remote string) bool {
	from, err := netip.ParseAddrPort(remote)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(m.networks, func(n netip.Prefix) bool { return n.Contains(from.Addr().Unmap().WithZone("")) })
}
