package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/mcpsaga/mcpsaga/internal/outgoing"
)

const (
	// replicaTimeout is how long a replica may take to say which keys it has.
	replicaTimeout = 10 * time.Second
	// maxReady limits the size of its answer in bytes.
	maxReady = 1 << 20
)

// checkReplicas refuses a key that one of the replicas named has not loaded.
func checkReplicas(ctx context.Context, c *cli.Command, id uint32) error {
	for _, replica := range c.StringSlice("replica") {
		if err := checkReplica(ctx, replica, keyID(id)); err != nil {
			return failed(err)
		}
	}
	return nil
}

// checkReplica asks a replica which keys it has loaded.
func checkReplica(ctx context.Context, replica, id string) error {
	address, err := url.Parse(replica)
	if err != nil || address.Host == "" || address.Scheme != "http" && address.Scheme != "https" {
		return fmt.Errorf("--replica %q is not an http or https URL", replica)
	}
	address.Path, address.RawQuery = "/readyz", ""
	ready, err := askReady(ctx, address.String())
	if err != nil {
		return fmt.Errorf("cannot find out which keys %s has loaded, nothing was promoted: %w", replica, err)
	}
	for _, key := range ready.Keys {
		if strings.EqualFold(key.ID, id) {
			return nil
		}
	}
	if !ready.StaleSince.IsZero() {
		return fmt.Errorf("%s has not loaded key %s, nothing was promoted: it cannot load its keyset file since %v, its log says why",
			replica, id, ready.StaleSince)
	}
	return fmt.Errorf("%s has not loaded key %s, nothing was promoted: give it the new keyset file and try again", replica, id)
}

// readiness is what a replica says at /readyz.
type readiness struct {
	Keys []struct {
		ID string `json:"id"`
	} `json:"keys"`
	StaleSince time.Time `json:"keysStaleSince"`
}

func askReady(ctx context.Context, address string) (ready readiness, err error) {
	ctx, cancel := context.WithTimeout(ctx, replicaTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return ready, err
	}
	// Another server's answer would be taken for the replica's.
	response, err := (&http.Client{CheckRedirect: outgoing.CheckRedirect}).Do(request)
	if err != nil {
		return ready, err
	}
	defer response.Body.Close()
	body, err := outgoing.ReadAll(response.Body, maxReady)
	if err == nil {
		err = json.Unmarshal(body, &ready)
	}
	if err != nil {
		return ready, fmt.Errorf("%s is not the answer of a saga server (HTTP status %d): %w", address, response.StatusCode, err)
	}
	if ready.Keys == nil {
		return ready, fmt.Errorf("%s does not tell its keys to requests for %q: use its address, or a name that its --allow-host allows", address, request.URL.Hostname())
	}
	return ready, nil
}
