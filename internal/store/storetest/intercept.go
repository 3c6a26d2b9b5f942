package storetest

import "github.com/mcpsaga/mcpsaga/internal/store/intercept"

// Intercept is a store whose calls a test may delay, count or have fail.
type Intercept = intercept.Store

// Call is a call of one of its methods.
type Call = intercept.Call
