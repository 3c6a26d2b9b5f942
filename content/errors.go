package content

import "errors"

// blockError says what is wrong with a block that cannot be read or written.
type blockError struct {
	typ    string // the block's, such as "text", or empty if it is not known
	member string // the JSON member at fault, or empty if it is the block as a whole
	err    error
}

func (e *blockError) Error() string {
	where := "content block"
	if e.typ != "" {
		where = e.typ + " block"
	}
	if e.member != "" {
		where += `: member "` + e.member + `"`
	}
	return where + ": " + e.err.Error()
}

func (e *blockError) Unwrap() error { return e.err }

var (
	errNotJSON    = errors.New("is not valid JSON")
	errNotObject  = errors.New("is not a JSON object")
	errNotArray   = errors.New("is not a JSON array")
	errNotString  = errors.New("is not a string")
	errNotNumber  = errors.New("is not a number")
	errNotInteger = errors.New("is not an integer")
	errNotBool    = errors.New("is not a boolean")
	errEmpty      = errors.New("is empty")
	errMissing    = errors.New("is missing")
	errNil        = errors.New("is nil")
	errOtherType  = errors.New("is of another type")
	errPriority   = errors.New("is not between 0 and 1")
)
