package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// everything runs the three services and the server as child processes. One that dies is started again
// at the same address: try kill -9.
func everything(ctx context.Context, o options) error {
	if o.dir == "" {
		var err error
		if o.dir, err = os.MkdirTemp("", "trip-"); err != nil {
			return err
		}
	} else if err := os.MkdirAll(o.dir, 0o700); err != nil { // keys will be in it
		return err
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	var children sync.WaitGroup
	defer children.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	// keep starts a part and keeps it running. It returns the part's URL.
	keep := func(name, addr string, command string, args ...string) (string, error) {
		p := &part{name: name, program: program, command: command, args: args, addr: addr, out: o.out}
		if err := p.start(ctx); err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		children.Go(func() { p.keep(ctx) })
		return p.url, nil
	}
	urls := map[string]string{}
	for name := range tariffs {
		if urls[name], err = keep(name, "127.0.0.1:0", "service", "--db", filepath.Join(o.dir, name+".db"), name); err != nil {
			return err
		}
	}
	at, err := keep("server", cmp.Or(o.addr, "127.0.0.1:8080"), "serve", "--keyset", filepath.Join(o.dir, "keyset.json"),
		"--ledger", cmp.Or(o.ledger, filepath.Join(o.dir, "ledger.db")), "--token-ttl", o.ttl.String(),
		"--hotel", urls["hotel"], "--flight", urls["flight"], "--payment", urls["payment"])
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(o.out, tryText, o.dir, at, urls["hotel"]); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

const tryText = `
Databases, keys and the ledger are in %[1]s. Try:

   go run ./cmd/saga call trip --server %[2]s from=Oslo account=alice
   curl -s %[3]s/holds

Decline the second question and look again; or, while it is asked, kill -9 any of the
processes above (they are started again), or the call itself, which then continues
with --resume. Or stop the call and forget it: the server releases what was held when
the time for the answer is over. Nine travellers find a hotel and no flight, which
has eight seats.
Ctrl-C ends everything.
`

// part is a child process.
type part struct {
	name, program, command string
	args                   []string
	addr, url              string
	out                    io.Writer
	cmd                    *exec.Cmd
}

// start starts the process and waits until it prints where it listens.
func (p *part) start(ctx context.Context) error {
	p.cmd = exec.CommandContext(ctx, p.program, append([]string{p.command, "--addr", p.addr}, p.args...)...)
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(os.Interrupt) }
	p.cmd.WaitDelay = 10 * time.Second
	p.cmd.Stderr = os.Stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return errors.Join(errors.New("it ended before it listened"), p.cmd.Wait())
	}
	p.url = strings.TrimSpace(line)
	at, err := url.Parse(p.url)
	if err != nil {
		return err
	}
	p.addr = at.Host
	_, err = fmt.Fprintf(p.out, "%-8s %s (process %d)\n", p.name, p.url, p.cmd.Process.Pid)
	return err
}

// keep starts the process again whenever it ends, until ctx does.
func (p *part) keep(ctx context.Context) {
	for {
		err := p.cmd.Wait()
		if ctx.Err() != nil {
			return
		}
		fmt.Fprintf(p.out, "%-8s ended: %v\n", p.name, err)
		for p.start(ctx) != nil {
			select {
			case <-ctx.Done():
				return
			case <-time.After(time.Second):
			}
		}
	}
}
