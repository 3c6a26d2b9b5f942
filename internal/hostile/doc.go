// Package hostile looks for requests that cost a server much: it makes requests of
// every method in every dialect with what is likely to be expensive in every place
// of them, has a server answer, and measures time and memory per byte of request.
//
// The test TestRequestsCostLittlePerByte of package server holds each of them to a
// limit; the command
//
//	go run ./bench hostile
//
// shows the worst.
package hostile
