package client

import "time"

// SetPause has a test wait less before turns are sent again.
func (c *Client) SetPause(d time.Duration) { c.pause = d }
