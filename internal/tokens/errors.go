package tokens

import "fmt"

// TooLargeError says that something is too large to be sealed.
type TooLargeError struct {
	// What is too large: "token" (in characters), or "contents", "tool",
	// "request" or "trace" (in bytes).
	What string
	// Size is how large it is and Limit how large it may be, in the unit of What.
	Size, Limit int
}

// Error says what is too large, by how much, and what to do.
func (e *TooLargeError) Error() string {
	unit, advice := "bytes", "shorten it"
	switch e.What {
	case "token":
		unit = "characters"
		advice = "keep less in the state, keep a reference to data stored elsewhere, or raise Options.MaxToken"
	case "contents":
		advice = "keep less in the state, keep a reference to data stored elsewhere, or raise Options.MaxPlaintext"
	}
	return fmt.Sprintf("tokens: %s of %d %s exceeds the limit of %d: %s", e.What, e.Size, unit, e.Limit, advice)
}
