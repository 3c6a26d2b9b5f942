package durable_test

import (
	"testing"

	"github.com/mcpsaga/mcpsaga/internal/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }
