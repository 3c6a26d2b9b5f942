package jsonview

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// What Integer makes of a number is exactly that number, and no integer that Go may have is refused.
func FuzzInteger(f *testing.F) {
	for _, number := range []string{"0", "-0.0", "1.50", "15e-1", "150e-1", "1e19", "-9.223372036854775808e18", "184467440737095516150e-1", "0e999", "1e999999999999999999999"} {
		f.Add(number)
	}
	f.Fuzz(func(t *testing.T, number string) {
		if strings.Trim(number, "-+.eE0123456789") != "" || !json.Valid([]byte(number)) || len(number) > 200 {
			return
		}
		digits, ok := Integer(number)
		if _, exponent, has := strings.Cut(strings.ToLower(number), "e"); has {
			if e, err := strconv.Atoi(exponent); err != nil || e > 9999 || e < -9999 {
				return // too large for what follows
			}
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

// A short number with a large exponent costs no more than another.
func TestExponentsCostNothing(t *testing.T) {
	for number, want := range map[string]bool{"1e9999": false, "0e9999": true, "0.000e-99999999999999999999": true, "1e99999999999999999999": false, "1e-9999": false} {
		_, ok := Integer(number)
		assert.Equal(t, want, ok, number)
		began := time.Now()
		for range 1000 {
			Integer(number)
		}
		assert.Less(t, time.Since(began), 50*time.Millisecond, number)
	}
}
