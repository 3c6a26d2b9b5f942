package steps

// Variation is a question as it is asked this time, made with its With method. It
// brings the answer that the question brings, so both can be read from either.
type Variation[T any] struct {
	step   func() (Step, error)
	answer func(Answers) (T, error)
}

// Step implements [Ask].
func (v Variation[T]) Step() (Step, error) {
	if v.step == nil {
		return Step{}, &QuestionError{Reason: "is not one that With made"}
	}
	return v.step()
}

// Answer reads the answer as the question's own Answer method does.
func (v Variation[T]) Answer(a Answers) (T, error) {
	if v.answer == nil {
		var none T
		_, err := v.Step()
		return none, err
	}
	return v.answer(a)
}
