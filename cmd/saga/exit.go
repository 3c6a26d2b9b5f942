package main

import (
	"context"
	"errors"

	"github.com/mcpsaga/mcpsaga/client"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/answers"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/arguments"
	"github.com/mcpsaga/mcpsaga/cmd/saga/internal/model"
)

// Exit codes, as exitCodesHelp explains them.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitDeclined    = 3
	exitServer      = 4
	exitNeedsAnswer = 5
	exitInterrupted = 130
)

const exitCodesHelp = `Exit codes:
   0    done
   1    the tool reported an error, or the command failed
   2    the command line is wrong
   3    you declined or dismissed a question, and the tool gave up
   4    the server cannot be reached, failed, or refused
   5    a question needs an answer: there is no terminal, or --answers has none
   130  interrupted; what was answered is saved`

// exitError is an error that knows its exit code.
type exitError struct {
	code int
	err  error
}

// Error implements error.
func (e *exitError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *exitError) Unwrap() error { return e.err }

func failed(err error) error {
	if err == nil {
		return nil
	}
	return &exitError{exitFailed, err}
}

// needsPerson says that a step can be answered only by a person, and there is none.
func needsPerson(stepID, ask, advice string) error {
	return &answers.NeededError{Reason: "step " + stepID + " needs an answer and there is no terminal to ask at: " + ask + "\n" + advice}
}

// modelFailed says that the user's own model failed, which is nothing the server
// should hear about. Its chain holds [client.ErrPause].
type modelFailed struct{ err error }

// Error implements error.
func (e *modelFailed) Error() string { return "your model failed: " + e.err.Error() }

// Unwrap returns the cause and client.ErrPause.
func (e *modelFailed) Unwrap() []error { return []error{e.err, client.ErrPause} }

// exitCode decides what the program exits with. An error that nothing here knows
// comes from the command line's parser.
func exitCode(err error) int {
	var known *exitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &known):
		return known.code
	case isAny[*answers.NeededError](err):
		return exitNeedsAnswer
	case isAny[*modelFailed](err):
		return exitFailed
	case isAny[*client.PositionError](err), isAny[*arguments.Error](err), isAny[*model.ConfigError](err):
		return exitUsage
	case errors.Is(err, client.ErrPause), errors.Is(err, context.Canceled):
		return exitInterrupted
	case isAny[*client.Error](err), isAny[*client.TransportError](err), isAny[*client.ProtocolError](err),
		isAny[*client.LimitError](err):
		return exitServer
	case isAny[*client.Interrupted](err):
		return exitFailed
	}
	return exitUsage
}

func isAny[E error](err error) bool {
	var target E
	return errors.As(err, &target)
}
