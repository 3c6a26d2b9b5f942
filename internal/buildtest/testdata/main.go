// Command testdata says what it was told when it was built.
package main

import "fmt"

var says string

func main() { fmt.Println(says) }
