// Package sagatest is for testing tools written with package saga.
package sagatest
