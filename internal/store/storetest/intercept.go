package storetest

import "github.com/mcpsaga/mcpsaga/internal/store"

// Intercept and Call are for tests in which a store fails, hangs or is watched.
type (
	Intercept = store.Intercept
	Call      = store.Call
)
