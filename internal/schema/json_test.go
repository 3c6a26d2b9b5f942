package schema

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// What integer makes of a number is exactly that number, and no integer that Go may have is refused.
func FuzzInteger(f *testing.F) {
	for _, number := range []string{"0", "-0.0", "1.50", "15e-1", "150e-1", "1e19", "-9.223372036854775808e18", "184467440737095516150e-1", "0e999", "1e999999999999999999999"} {
		f.Add(number)
	}
	f.Fuzz(func(t *testing.T, number string) {
		if strings.Trim(number, "-+.eE0123456789") != "" || !json.Valid([]byte(number)) || len(number) > 200 {
			return
		}
		digits, ok := integer(number)
		if _, exponent, _ := strings.Cut(strings.ToLower(number), "e"); len(exponent) > maxExponent {
			assert.False(t, ok)
			return // too large for what follows
		}
		exact, _ := new(big.Rat).SetString(number)
		if ok {
			read, _ := new(big.Rat).SetString(digits)
			assert.Zero(t, exact.Cmp(read), "%s is not %s", digits, number)
			return
		}
		assert.False(t, exact.IsInt() && (exact.Num().IsInt64() || exact.Num().IsUint64()), number)
	})
}
