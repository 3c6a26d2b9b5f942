package storetest

import "github.com/mcpsaga/mcpsaga/internal/store/intercept"

// A store whose calls a test may delay, count or have fail.
type (
	Intercept = intercept.Store
	Call      = intercept.Call
)
