package codec

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/tink-crypto/tink-go/v2/aead"
	"github.com/tink-crypto/tink-go/v2/insecurecleartextkeyset"
	"github.com/tink-crypto/tink-go/v2/keyset"
	tinkpb "github.com/tink-crypto/tink-go/v2/proto/tink_go_proto"
	"github.com/tink-crypto/tink-go/v2/tink"
)

// Keyset is a set of keys: one primary, which seals, and any number that still
// open. It is immutable: the operations on it return another. It never prints
// its keys.
type Keyset struct {
	handle *keyset.Handle
	aead   tink.AEAD
	keys   []KeyInfo
}

// KeyInfo describes a key without revealing it.
type KeyInfo struct {
	// ID is the number by which the operations on keysets know the key. It is
	// visible in every token the key sealed.
	ID uint32
	// Type is the kind of key.
	Type KeyType
	// Enabled reports whether the key opens tokens, and may be made primary. A disabled one
	// opens nothing, but can be enabled again; a destroyed one is not in the keyset at all.
	Enabled bool
	// Primary reports whether the key seals tokens.
	Primary bool
	// Prefix is what every token sealed with the key begins with.
	Prefix string
}

// NewKeyset returns a keyset with a fresh key of each of the types, the first of which is
// primary; without types, with one of [XAES256GCM]. It fails if there is no such type.
func NewKeyset(types ...KeyType) (*Keyset, error) {
	if len(types) == 0 {
		types = []KeyType{XAES256GCM}
	}
	template, err := types[0].template()
	if err != nil {
		return nil, err
	}
	handle, err := keyset.NewHandle(template)
	if err != nil {
		return nil, fmt.Errorf("codec: new keyset: %w", err)
	}
	k, err := fromHandle(handle)
	for _, t := range types[1:] {
		if err != nil {
			return nil, err
		}
		k, _, err = k.Add(t)
	}
	return k, err
}

// These replace the parser's own message, which may quote its input, and its input is a key.
var (
	errKeysetSyntax    = errors.New("codec: not a keyset in Tink's JSON form, such as saga keys new writes")
	errKeysetEncrypted = errors.New("codec: the keyset is encrypted by a KMS: name the key that it was encrypted with (--keyset-kms, or KeysetFile.KMS)")
	errKeysetClear     = errors.New("codec: the keyset is in clear text, and should be encrypted by a KMS: see whether this is the right one")
)

// ParseKeyset reads a cleartext keyset in Tink's JSON form. It refuses keysets
// with a key that is not fit for tokens, and says what to use instead.
func ParseKeyset(data []byte) (*Keyset, error) {
	parsed, err := keyset.NewJSONReader(bytes.NewReader(data)).Read()
	if err != nil || parsed == nil {
		encrypted, err := keyset.NewJSONReader(bytes.NewReader(data)).ReadEncrypted()
		if err == nil && len(encrypted.GetEncryptedKeyset()) > 0 {
			return nil, errKeysetEncrypted
		}
		return nil, errKeysetSyntax
	}
	return fromProto(parsed)
}

// fromProto checks what Tink's own parser would report less helpfully, and
// drops destroyed keys.
func fromProto(p *tinkpb.Keyset) (*Keyset, error) {
	kept := &tinkpb.Keyset{PrimaryKeyId: p.GetPrimaryKeyId()}
	seen := make(map[uint32]bool)
	for _, k := range p.GetKey() {
		if k.GetStatus() == tinkpb.KeyStatusType_DESTROYED {
			continue
		}
		if err := checkProto(k); err != nil {
			return nil, err
		}
		if seen[k.GetKeyId()] {
			return nil, keyError(k.GetKeyId(), "occurs twice: every key needs an id of its own")
		}
		seen[k.GetKeyId()] = true
		kept.Key = append(kept.Key, k)
	}
	if len(kept.GetKey()) == 0 {
		return nil, errEmptyKeyset
	}
	for _, k := range kept.GetKey() {
		if k.GetKeyId() == kept.GetPrimaryKeyId() && k.GetStatus() == tinkpb.KeyStatusType_ENABLED {
			handle, err := insecurecleartextkeyset.Read(protoReader{kept})
			if err != nil {
				return nil, errKeysetSyntax
			}
			return fromHandle(handle)
		}
	}
	return nil, errNoPrimary
}

// protoReader gives Tink a keyset that has been parsed already.
type protoReader struct{ keyset *tinkpb.Keyset }

func (r protoReader) Read() (*tinkpb.Keyset, error) { return r.keyset, nil }

func (protoReader) ReadEncrypted() (*tinkpb.EncryptedKeyset, error) { return nil, errKeysetSyntax }

// fromHandle checks every key and builds what opening tokens needs.
func fromHandle(handle *keyset.Handle) (*Keyset, error) {
	ks := &Keyset{handle: handle}
	for i := range handle.Len() {
		entry, err := handle.Entry(i)
		if err != nil {
			return nil, fmt.Errorf("codec: keyset: %w", err)
		}
		t, err := typeOf(entry)
		if err != nil {
			return nil, err
		}
		ks.keys = append(ks.keys, KeyInfo{
			ID: entry.KeyID(), Type: t, Enabled: entry.KeyStatus() == keyset.Enabled,
			Primary: entry.IsPrimary(), Prefix: prefixOf(entry.KeyID()),
		})
	}
	var err error
	if ks.aead, err = aead.New(handle); err != nil {
		return nil, errors.New("codec: Tink does not accept the keyset")
	}
	return ks, nil
}

// prefixOf returns the characters with which every token of a key begins: the format, and in
// base64url how Tink names the key.
func prefixOf(id uint32) string {
	const format, tink = "1", 0x01
	name := binary.BigEndian.AppendUint32([]byte{tink}, id)
	// Five bytes are 6⅔ characters; only six depend on nothing else.
	return format + base64.RawURLEncoding.EncodeToString(name)[:6]
}

// Encrypt seals with the primary key, and Decrypt opens with whichever key sealed: a keyset
// is a [tink.AEAD]. Servers make their tokens with that. What else is sealed with the same
// keys must have associated data that no token has.
func (k *Keyset) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	return k.aead.Encrypt(plaintext, associatedData)
}

// Decrypt undoes [Keyset.Encrypt].
func (k *Keyset) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	return k.aead.Decrypt(ciphertext, associatedData)
}

// Key describes the key with an id, if there is one.
func (k *Keyset) Key(id uint32) (KeyInfo, bool) {
	return k.first(func(info KeyInfo) bool { return info.ID == id })
}

// Keys describes the keys, in the order of the keyset.
func (k *Keyset) Keys() []KeyInfo { return slices.Clone(k.keys) }

// Primary describes the key that seals.
func (k *Keyset) Primary() KeyInfo {
	info, _ := k.first(func(info KeyInfo) bool { return info.Primary })
	return info
}

func (k *Keyset) first(is func(KeyInfo) bool) (KeyInfo, bool) {
	if i := slices.IndexFunc(k.keys, is); i >= 0 {
		return k.keys[i], true
	}
	return KeyInfo{}, false
}

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
// [KeysetFile] to save a keyset.
func (k *Keyset) MarshalJSON() ([]byte, error) { return json.Marshal(k.String()) }

// Status is "enabled" or "disabled".
func (i KeyInfo) Status() string {
	if i.Enabled {
		return "enabled"
	}
	return "disabled"
}

// String describes the key, its id in hexadecimal as everywhere for people, as in "0000b5c3 xaes-256-gcm enabled primary".
func (i KeyInfo) String() string {
	s := fmt.Sprintf("%08x %s %s", i.ID, i.Type, i.Status())
	if i.Primary {
		s += " primary"
	}
	return s
}
