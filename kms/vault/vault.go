// Package vault has HashiCorp Vault encrypt keysets, by a key of its transit engine, or a server that answers as Vault
// does, such as OpenBao.
//
//	program.Main(program.Options{
//		Server: server.Options{Name: "lunch", Tools: tools},
//		KMS:    vault.KMS(nil),
//	})
//
// Then lunch keys new --keyset-kms hcvault:///transit/keys/lunch makes a keyset that only who may use that key can open, and
// lunch serve takes the same flag. The policy of servers needs the capability update of transit/decrypt/lunch; who changes
// keysets needs that of transit/encrypt/lunch, too. The key must be of a type with associated data (aes256-gcm96, which is the
// default, aes128-gcm96 or chacha20-poly1305) and without derivation.
package vault

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"

	"github.com/hashicorp/vault/api"
	"github.com/tink-crypto/tink-go-hcvault/v2/integration/hcvault"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// KMS returns what program.Options.KMS is for: it opens keys that are named as hcvault://HOST/MOUNT/keys/NAME, as in
// hcvault://vault.example.com:8200/transit/keys/lunch. The client is asked; nil is one that the environment describes: VAULT_ADDR,
// VAULT_TOKEN, VAULT_CACERT, and what else Vault's clients read. Its token is not renewed: for servers that run longer, give
// a client that has its own renewed, or name a Vault agent that does so (VAULT_AGENT_ADDR). HOST may be missing, as in hcvault:///transit/keys/lunch, and must else be where the client sends
// requests, so that a keyset is not sent elsewhere by mistake.
//
// It fails if the name or the environment is wrong; whether there is such a key shows when it is used. How long Vault is
// waited for is up to the client: in the environment VAULT_CLIENT_TIMEOUT, for each of VAULT_MAX_RETRIES attempts more than one.
func KMS(client *api.Client) func(ctx context.Context, uri string) (tink.AEAD, error) {
	connect := func() (*api.Client, error) { return client, nil }
	if client == nil {
		connect = sync.OnceValues(func() (*api.Client, error) { return api.NewClient(nil) })
	}
	return func(_ context.Context, uri string) (tink.AEAD, error) {
		u, err := url.Parse(uri)
		if err != nil || u.Scheme != "hcvault" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			return nil, errName
		}
		client, err := connect()
		if err != nil {
			return nil, fmt.Errorf("vault: the environment: %w", err)
		}
		if at, err := url.Parse(client.Address()); err != nil || u.Host != "" && u.Host != at.Host {
			return nil, fmt.Errorf("vault: the key is of %s, but requests go to %s: set VAULT_ADDR, or leave the host out", u.Host, at.Host)
		}
		key, err := hcvault.NewAEAD(u.EscapedPath(), client.Logical())
		if err != nil {
			return nil, errName
		}
		return key, nil
	}
}

// errName does not repeat the name, which may be a URL with a password.
var errName = errors.New("vault: a key is named as hcvault://HOST/MOUNT/keys/NAME, and HOST may be missing")
