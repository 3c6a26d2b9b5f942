// Command testdata prints what was set when it was built.
package main

import "fmt"

var says string

func main() { fmt.Println(says) }
