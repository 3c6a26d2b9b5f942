package content

import "errors"

// Error says what is wrong with a block that cannot be read or written.
type Error struct {
	// Type is the block's type, such as "text", or empty if it is not known.
	Type string
	// Member is the JSON member at fault, or empty if it is the block as a whole.
	Member string
	// Err says what is wrong.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	where := "content block"
	if e.Type != "" {
		where = e.Type + " block"
	}
	if e.Member != "" {
		where += `: member "` + e.Member + `"`
	}
	return where + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

var (
	errNotJSON    = errors.New("is not valid JSON")
	errNotObject  = errors.New("is not a JSON object")
	errNotArray   = errors.New("is not a JSON array")
	errNotString  = errors.New("is not a string")
	errNotStrings = errors.New("is not an array of strings")
	errNotNumber  = errors.New("is not a number")
	errNotInteger = errors.New("is not an integer")
	errNotBool    = errors.New("is not a boolean")
	errNotBase64  = errors.New("is not standard base64")
	errEmpty      = errors.New("is empty")
	errMissing    = errors.New("is missing")
	errNil        = errors.New("is nil")
	errOtherType  = errors.New("is of another type")
	errPriority   = errors.New("is not between 0 and 1")
)
