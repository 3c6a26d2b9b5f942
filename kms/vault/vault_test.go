package vault_test

import (
	"net"
	"testing"

	"github.com/hashicorp/vault/api"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcpsaga/mcpsaga/kms/vault"
)

// Package transit has the tests with Vault's own engine.
func TestNames(t *testing.T) {
	t.Setenv("VAULT_ADDR", "https://vault.example.com:8200")
	for uri, want := range map[string]string{
		"hcvault:///transit/keys/lunch":                           "",
		"hcvault://vault.example.com:8200/transit/keys/lunch":     "",
		"hcvault:///deep/in/transit/keys/lunch":                   "",
		"hcvault://vault.example.com/transit/keys/lunch":          "requests go to vault.example.com:8200",
		"hcvault://other.example.com:8200/transit/keys/lunch":     "requests go to vault.example.com:8200",
		"hcvault:///transit/lunch":                                "is named as hcvault://HOST/MOUNT/keys/NAME",
		"hcvault:///keys/lunch":                                   "is named as",
		"hcvault:transit/keys/lunch":                              "is named as",
		"https://vault.example.com:8200/transit/keys/lunch":       "is named as",
		"hcvault://me:hush@vault.example.com:8200/transit/keys/l": "is named as",
		"hcvault://vault.example.com:8200/transit/keys/l?hush=1":  "is named as",
		"hcvault://vault.example.com:8200/transit/keys/l#hush":    "is named as",
		"hcvault://vault.example.com:hush/transit/keys/lunch":     "is named as",
		"": "is named as",
	} {
		key, err := vault.KMS(nil)(t.Context(), uri)
		if want == "" {
			require.NoError(t, err, uri)
			require.NotNil(t, key, uri)
			continue
		}
		require.ErrorContains(t, err, want, uri)
		require.NotContains(t, err.Error(), "hush")
	}
	t.Setenv("VAULT_CACERT", "missing.pem")
	_, err := vault.KMS(nil)(t.Context(), "hcvault:///transit/keys/lunch")
	require.ErrorContains(t, err, "the environment: ")
}

// A Vault that cannot be reached is an error, not a wait for ever.
func TestVaultThatIsAway(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	config := api.DefaultConfig()
	config.Address, config.MaxRetries = "http://"+address, 0
	client, err := api.NewClient(config)
	require.NoError(t, err)
	key, err := vault.KMS(client)(t.Context(), "hcvault://"+address+"/transit/keys/lunch")
	require.NoError(t, err)
	_, err = key.Decrypt([]byte("vault:v1:"), nil)
	assert.ErrorContains(t, err, address)
	_, err = key.Encrypt(nil, nil)
	assert.ErrorContains(t, err, address)
}
