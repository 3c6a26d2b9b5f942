//go:build !unix

package postgrestest

import "syscall"

func account(string) (*syscall.SysProcAttr, error) { return nil, nil }
