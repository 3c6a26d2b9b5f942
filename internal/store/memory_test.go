package store_test

import (
	"testing"

	"github.com/mcpsaga/mcpsaga/internal/store"
	"github.com/mcpsaga/mcpsaga/internal/store/storetest"
)

func TestMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Open {
		s := store.NewMemory(nil)
		return func() store.Store { return s }
	})
}
