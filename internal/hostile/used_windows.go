package hostile

import (
	"fmt"
	"syscall"
	"time"
)

// used is the time that the process has used.
func used() (time.Duration, error) {
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0, fmt.Errorf("hostile: %w", err)
	}
	var created, exited, kernel, user syscall.Filetime
	if err := syscall.GetProcessTimes(self, &created, &exited, &kernel, &user); err != nil {
		return 0, fmt.Errorf("hostile: %w", err)
	}
	return hundreds(kernel) + hundreds(user), nil
}

// hundreds is a length of time that Windows counts in units of 100 ns.
func hundreds(t syscall.Filetime) time.Duration {
	return time.Duration(int64(t.HighDateTime)<<32|int64(t.LowDateTime)) * 100
}
