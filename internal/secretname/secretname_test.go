package secretname_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/mcpsaga/mcpsaga/internal/secretname"
)

func TestLooks(t *testing.T) {
	for _, name := range []string{"password", "Password", "DBPassword", "user_pwd", "api_key", "API-Key", "APIKey", "apikey2", "accessToken", "token", "clientSecret",
		"cardNumber", "Credit card", "cvv", "PIN", "privatekey", "mypassword1", "Enter the security code", "JWT", "SigningKey", "otp", "apiKeys"} {
		assert.True(t, secretname.Looks(name), name)
	}
	for _, name := range []string{"", "target", "tokenCount", "maxTokens", "Tokens", "pinned", "key", "Key", "cardinality", "secretary", "Number of cards", "shipping",
		"pageToken", "NextPageToken", "continuation_token", "NextToken", "syncToken", "PublicKey", "author"} {
		assert.False(t, secretname.Looks(name), name)
	}
}
