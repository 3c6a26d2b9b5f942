package steps

// Otherwise asks first, or second if the client lacks what first needs. Which one
// was asked shows when the answers are read: the other's Answer fails with
// [ErrNotAsked]. Alternatives can be chained.
func Otherwise(first, second Request) Request { return otherwise{first, second} }

type otherwise struct{ first, second Request }

// Step implements [Request].
func (o otherwise) Step() (Step, error) {
	first, err := o.first.Step()
	if err != nil {
		return Step{}, err
	}
	second, err := o.second.Step()
	if err != nil {
		return Step{}, err
	}
	last := &first
	for last.Otherwise != nil {
		next := *last.Otherwise
		last.Otherwise = &next
		last = &next
	}
	last.Otherwise = &second
	return first, nil
}
