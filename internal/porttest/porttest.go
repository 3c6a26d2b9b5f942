// Package porttest finds addresses for servers that tests start as processes of their own, and
// start again: [Reserve].
package porttest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
)

// Ports below those that systems give when any port will do, which a client's next connection may
// get as soon as there is no listener.
const first, last = 20_000, 32_000

// Reserve returns an address of this machine that has no listener, and which no other process gets
// from Reserve, in any process, until the test ends.
func Reserve(t testing.TB) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", first+rand.N(last-first))
		held, err := net.ListenPacket("udp4", address) // the mark by which others see that it is taken
		if err != nil {
			continue
		}
		if !free(address) {
			_ = held.Close()
			continue
		}
		t.Cleanup(func() { _ = held.Close() })
		return address
	}
	t.Fatal("no port is free")
	return ""
}

// free reports whether the address has no listener. A process that starts meanwhile would keep the
// listener open for a moment, as it has all files of this one until it runs its program.
func free(address string) bool {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	l, err := net.Listen("tcp4", address)
	if err != nil {
		return false
	}
	return l.Close() == nil
}
