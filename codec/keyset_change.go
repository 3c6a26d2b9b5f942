package codec

import (
	"fmt"
	"strings"

	"github.com/tink-crypto/tink-go/v2/keyset"
)

// The operations below are the stages of a rotation. Each returns another
// keyset and leaves k as it is. Give every replica the result of one stage
// before starting the next: a token sealed with a key that some replica does
// not have yet is refused there.

// Add returns k with a fresh key, and its id. The key opens tokens but does not
// seal them until it is promoted.
func (k *Keyset) Add(t KeyType) (*Keyset, uint32, error) {
	template, err := t.template()
	if err != nil {
		return nil, 0, err
	}
	m := keyset.NewManagerFromHandle(k.handle)
	id, err := m.Add(template)
	if err != nil {
		return nil, 0, fmt.Errorf("codec: add a key: %w", err)
	}
	next, err := finish(m)
	return next, id, err
}

// Promote returns k with the key as its primary, which seals from now on. Do it
// when every replica has the key. A disabled key cannot be promoted.
func (k *Keyset) Promote(id uint32) (*Keyset, error) {
	return k.change(id, (*keyset.Manager).SetPrimary, func(info KeyInfo) string {
		if !info.Enabled {
			return "is disabled: enable it before promoting it"
		}
		return ""
	})
}

// Disable returns k with the key disabled: tokens sealed with it are refused.
// Do it no sooner than one TTL after another key was promoted. The primary key
// cannot be disabled.
func (k *Keyset) Disable(id uint32) (*Keyset, error) {
	return k.change(id, (*keyset.Manager).Disable, func(info KeyInfo) string {
		if info.Primary {
			return "is the primary key and cannot be disabled: promote another key first"
		}
		return ""
	})
}

// Enable returns k with the key enabled again.
func (k *Keyset) Enable(id uint32) (*Keyset, error) {
	return k.change(id, (*keyset.Manager).Enable, func(KeyInfo) string { return "" })
}

// Destroy returns k without the key. There is no way back: what it sealed can
// never be opened again. The key must have been disabled before, which is the
// moment to find out that something still needs it.
func (k *Keyset) Destroy(id uint32) (*Keyset, error) {
	return k.change(id, (*keyset.Manager).Delete, func(info KeyInfo) string {
		switch {
		case info.Primary:
			return "is the primary key and cannot be destroyed: promote another key first"
		case info.Enabled:
			return "still opens tokens: disable it first, and destroy it when nothing misses it"
		}
		return ""
	})
}

// change returns k with one key changed. refused says why that must not be, or is empty.
func (k *Keyset) change(id uint32, f func(*keyset.Manager, uint32) error, refused func(KeyInfo) string) (*Keyset, error) {
	info, ok := k.Key(id)
	if !ok {
		var known []string
		for _, info := range k.keys {
			known = append(known, fmt.Sprintf("%08x", info.ID))
		}
		return nil, keyError(id, "is not in the keyset, which has "+strings.Join(known, ", "))
	}
	if problem := refused(info); problem != "" {
		return nil, keyError(id, problem)
	}
	m := keyset.NewManagerFromHandle(k.handle)
	if err := f(m, id); err != nil {
		return nil, fmt.Errorf("codec: change the keyset: %w", err)
	}
	return finish(m)
}

func finish(m *keyset.Manager) (*Keyset, error) {
	handle, err := m.Handle()
	if err != nil {
		return nil, fmt.Errorf("codec: change the keyset: %w", err)
	}
	return fromHandle(handle)
}
