package ways

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// lines is a connection over the standard input and output of a server.
type lines struct {
	in  io.Writer
	out *bufio.Reader
}

func (c *lines) write(m object) error {
	m["jsonrpc"] = "2.0"
	raw, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if _, err = c.in.Write(append(raw, '\n')); err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	return nil
}

// exchangeLines is exchange over lines. A server that was started again meanwhile is greeted first.
func (c *caller) exchangeLines(m object) (message, error) {
	if now := c.child(); c.lines != now {
		c.lines = now
		if c.hello != nil {
			if err := c.hello(); err != nil {
				c.lines = nil
				return message{}, err
			}
		}
	}
	id, err := json.Marshal(m["id"])
	if err == nil {
		err = c.lines.write(m)
	}
	for err == nil {
		var raw []byte
		if raw, err = c.lines.out.ReadBytes('\n'); err != nil {
			return message{}, fmt.Errorf("%w: %w", errBroken, err)
		}
		var got message
		if err = json.Unmarshal(raw, &got); err != nil {
			break
		}
		switch {
		case got.Method != "":
			err = c.heard(got)
		case bytes.Equal(got.ID, id):
			return got, nil
		default:
			err = errors.New("an answer that nobody asked for: " + string(raw))
		}
	}
	return message{}, err
}
