// Package secretname recognises fields that hold secrets by their names.
package secretname

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Words that mark a field as a secret. The check is there to catch a mistake, not
// to outwit an author: it looks at names, and the tag notsecret overrules it.
var (
	secretWords = []string{
		"password", "passwords", "passwd", "pwd", "passphrase", "passcode", "secret", "secrets",
		"credential", "credentials", "apikey", "cvv", "cvc", "otp", "pin", "jwt",
	}
	// tokensOfPlaces mark tokens that say where to continue, and grant no access.
	tokensOfPlaces = []string{"page", "next", "continuation", "sync"}
	secretPairs    = []string{
		"api key", "access key", "private key", "secret key", "signing key", "encryption key",
		"card number", "credit card", "debit card", "security code", "recovery code",
	}
	// secretRuns are looked for within names that are not separated into words.
	secretRuns = []string{
		"password", "passphrase", "apikey", "accesskey", "privatekey", "secretkey", "accesstoken",
		"authtoken", "cardnumber", "creditcard",
	}
)

// Looks reports whether a field of this name or title holds a secret. A token counts only at the end: accessToken is one,
// tokenCount is not.
func Looks(name string) bool {
	words := split(name)
	for i, w := range words {
		switch {
		case slices.Contains(secretWords, w),
			w == "token" && i == len(words)-1 && (i == 0 || !slices.Contains(tokensOfPlaces, words[i-1])),
			i > 0 && slices.Contains(secretPairs, words[i-1]+" "+strings.TrimSuffix(w, "s")):
			return true
		}
		for _, run := range secretRuns {
			if strings.Contains(w, run) {
				return true
			}
		}
	}
	return false
}

// Where a word begins within a name: at a capital after a small letter or a digit, and at
// the last capital of several.
var afterSmall, lastCapital = regexp.MustCompile(`([\p{Ll}\p{Nd}])(\p{Lu})`), regexp.MustCompile(`(\p{Lu})(\p{Lu}\p{Ll})`)

// split returns the words of a name in lower case: those of "apiKey", "api_key",
// "API-Key" and "API key" are "api" and "key".
func split(name string) []string {
	name = lastCapital.ReplaceAllString(afterSmall.ReplaceAllString(name, "$1 $2"), "$1 $2")
	return strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}
