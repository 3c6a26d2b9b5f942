package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/mcpsaga/mcpsaga/internal/cputime"
)

// order is a line that a child process receives: so many callers begin, and wait for, one piece of
// work after the other for so long. Without callers it only asks for the time of the processor.
type order struct {
	Callers int           `json:"callers,omitzero"`
	For     time.Duration `json:"for,omitzero"`
}

// answer is a line that a child process writes, when it is ready and after each order.
type answer struct {
	Error   string        `json:"error,omitzero"`
	Done    int           `json:"done,omitzero"` // pieces of work
	Elapsed time.Duration `json:"elapsed,omitzero"`
	Half    time.Duration `json:"half,omitzero"` // what half of them took at most
	CPU     time.Duration `json:"cpu,omitzero"`  // of the process, since it began
}

// beChild works until its standard input ends, as it does when the parent ends or dies. The
// arguments are the store, the system, and the place's Target and Keys.
func beChild(args []string) error {
	i := slices.IndexFunc(systems, func(s system) bool { return len(args) == 4 && s.store == args[0] && s.name == args[1] })
	if i < 0 {
		return fmt.Errorf("child: wrong arguments %q", args)
	}
	ctx := context.Background()
	w, err := systems[i].open(ctx, place{Target: args[2], Keys: args[3]})
	if err != nil {
		return err
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for a := (answer{}); ; {
		if err := out.Encode(a); err != nil {
			return err
		}
		var o order
		if err := in.Decode(&o); err != nil {
			time.AfterFunc(10*time.Second, func() { os.Exit(1) }) // if closing hangs
			w.Close()
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
		if o.Callers == 0 {
			a = answer{CPU: cputime.Used()}
		} else {
			a = load(ctx, w, o)
		}
	}
}

// load has callers have work done, one piece after the other, for a while, and waits for the last.
func load(ctx context.Context, w worker, o order) (a answer) {
	ctx, cancel := context.WithTimeout(ctx, o.For+20*time.Second)
	defer cancel()
	var all sync.WaitGroup
	times, errs := make([][]time.Duration, o.Callers), make([]error, o.Callers)
	began := time.Now()
	for caller := range o.Callers {
		all.Go(func() {
			for errs[caller] == nil && time.Since(began) < o.For {
				start := time.Now()
				errs[caller] = w.Do(ctx)
				times[caller] = append(times[caller], time.Since(start))
			}
		})
	}
	all.Wait()
	a.Elapsed, a.CPU = time.Since(began), cputime.Used()
	if err := errors.Join(errs...); err != nil {
		a.Error = err.Error()
	}
	flat := slices.Concat(times...)
	slices.Sort(flat)
	a.Done, a.Half = len(flat), flat[len(flat)/2]
	return a
}

// child is a process that works with a system. It answers each line that it gets with a line.
type child struct {
	label string
	in    io.WriteCloser
	out   *json.Decoder
	wait  func() error
}

// startChild starts a system, and waits until it is ready. It is killed when ctx ends.
func startChild(ctx context.Context, s system, at place) (*child, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, "child", s.store, s.name, at.Target, at.Keys)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{s.name + " on " + s.store, in, json.NewDecoder(out), cmd.Wait}
	_, err = c.answer()
	return c, err
}

func (c *child) answer() (a answer, err error) {
	if err = c.out.Decode(&a); err == nil && a.Error != "" {
		err = errors.New(a.Error)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", c.label, err)
	}
	return a, err
}

// do gives an order and waits for the answer.
func (c *child) do(o order) (answer, error) {
	if err := json.NewEncoder(c.in).Encode(o); err != nil {
		return answer{}, fmt.Errorf("%s: %w", c.label, err)
	}
	return c.answer()
}

// end has the process end, and waits until it has.
func (c *child) end() {
	_ = c.in.Close()
	_ = c.wait()
}
