//go:build !unix

package postgrestest

import "syscall"

// Account returns nothing: PostgreSQL runs as the user that runs the tests.
func Account(string) (*syscall.SysProcAttr, error) { return nil, nil }
