package codec

import _ "embed"

//go:embed dictionary1.zdict
var dictionary1 []byte
