package codec

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
)

// String describes the keys without revealing them.
func (k *Keyset) String() string {
	if k == nil {
		return "Keyset(none)"
	}
	var keys []string
	for _, info := range k.keys {
		keys = append(keys, info.String())
	}
	return "Keyset(" + strings.Join(keys, "; ") + ")"
}

// GoString is the same as String.
func (k *Keyset) GoString() string { return k.String() }

// Format prints the same as String whatever the verb, so that no way of
// printing a keyset reveals its keys.
func (k *Keyset) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, k.String()) }

// LogValue is the same as String.
func (k *Keyset) LogValue() slog.Value { return slog.StringValue(k.String()) }

// MarshalJSON describes the keys without revealing them. Use
// [Keyset.WriteFile] to save a keyset.
func (k *Keyset) MarshalJSON() ([]byte, error) { return json.Marshal(k.String()) }

// String describes the key, its id in hexadecimal as everywhere for people, as in "0000b5c3 xaes-256-gcm enabled primary".
func (i KeyInfo) String() string {
	s := fmt.Sprintf("%08x %s %s", i.ID, i.Type, i.Status)
	if i.Primary {
		s += " primary"
	}
	return s
}
