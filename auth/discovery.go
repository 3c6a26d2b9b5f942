package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

const (
	// maxMetadata bounds the bytes of an issuer's metadata.
	maxMetadata = 256 << 10
	// discoverAgain is how soon metadata is asked for again that could not be had.
	discoverAgain = 3 * time.Second
)

// discovery finds where an issuer has what it has, by its metadata (RFC 8414, OpenID Connect Discovery).
type discovery struct {
	issuer string
	from   *Checking
	asking *gate // of one place; the rest is for who is in it
	until  time.Time
	found  map[string]any // nil before the first
	failed error
}

func newDiscovery(issuer string, from *Checking) *discovery {
	return &discovery{issuer: issuer, from: from, asking: newGate(1, fetchTimeout)}
}

// find returns what the metadata says, of which it asks hourly.
func (d *discovery) find(ctx context.Context) (map[string]any, error) {
	if err := d.asking.enter(ctx); err != nil {
		return nil, err
	}
	defer d.asking.leave()
	now := d.from.Now()
	if now.Before(d.until) {
		return d.found, d.failed
	}
	found, err := d.ask(context.WithoutCancel(ctx)) // others wait for it as well
	switch {
	case err == nil:
		d.found, d.failed, d.until = found, nil, now.Add(keysAge)
	case d.found == nil:
		d.failed, d.until = err, now.Add(discoverAgain)
	default: // what it said will do
		d.until = now.Add(discoverAgain)
	}
	return d.found, d.failed
}

// ask tries the places where metadata may be, in the order in which clients of MCP do.
func (d *discovery) ask(ctx context.Context) (found map[string]any, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	u, err := url.Parse(d.issuer)
	if err != nil {
		return found, err
	}
	const oauth, openID = "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"
	origin, path := u.Scheme+"://"+u.Host, strings.TrimSuffix(u.EscapedPath(), "/")
	places := []string{origin + oauth + path, origin + openID + path, origin + path + openID}
	if path == "" {
		places = places[:2]
	}
	var failed error
	for _, place := range places {
		found, err := d.read(ctx, place)
		if err == nil {
			return found, nil
		}
		failed = errors.Join(failed, err)
	}
	return found, fmt.Errorf("the metadata of the issuer %s: %w", d.issuer, failed)
}

func (d *discovery) read(ctx context.Context, place string) (found map[string]any, err error) {
	raw, err := fetch(ctx, d.from.Client, place, maxMetadata)
	if err != nil {
		return found, err
	}
	if err := json.Unmarshal(raw, &found); err != nil {
		return found, fmt.Errorf("%s: %w", place, err)
	}
	if issuer := text(found["issuer"]); issuer != d.issuer {
		return found, fmt.Errorf("%s is of the issuer %q: name that one, exactly so, if it is meant", place, issuer)
	}
	for _, name := range []string{"jwks_uri", "introspection_endpoint"} {
		if _, is := found[name].(string); !is && found[name] != nil {
			return nil, fmt.Errorf("%s has a %s that is no text", place, name)
		}
	}
	return found, nil
}

// endpoint is a URL that is given, or else what is found in the metadata, where it is called name.
func (d *discovery) endpoint(ctx context.Context, given, name string) (string, error) {
	if given != "" {
		return given, nil
	}
	found, err := d.find(ctx)
	if err != nil {
		return "", err
	}
	at := text(found[name])
	if at == "" {
		return "", fmt.Errorf("the metadata of the issuer %s has no %s", d.issuer, name)
	}
	return at, checkURL(at)
}
