// Package codec turns what a saga knows into one opaque string and back.
package codec
