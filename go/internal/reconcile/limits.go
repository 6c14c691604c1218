package reconcile

import "time"

// The named bounds of this package.
const (
	runsMax = 4 // at once, of different sources

	// pageBytesMax bounds one answer of a provider: GitHub's largest payload is 25 MB, as JSON.
	pageBytesMax = 64 << 20
	errorBytes   = 64 << 10 // of an answer that says why not
	callTimeout  = time.Minute

	// recordsMax and recordBytesMax bound what is missing in one slice; beyond them it is halved.
	recordsMax     = 50_000
	recordBytesMax = 32 << 20
	sliceMin       = time.Second
	// pagesMax bounds one slice, stalePagesMax pages in a row that name nothing new: a provider whose
	// cursor does not move is not asked for ever.
	pagesMax      = 10_000
	stalePagesMax = 20

	takenMax      = 32 // events in one group
	takenBytesMax = 1 << 20
	flushPause    = time.Second // what is ready does not wait longer for more

	triesMax    = 5 // of a call that gets no answer, or 5xx
	retryPause  = time.Second
	attemptsMax = 6                // at one event, by whoever, before it is not asked for again
	limitedMax  = 60               // times in a row that a provider says "not now"
	limitedWait = time.Minute      // where it does not say when
	waitMax     = 70 * time.Minute // that a provider may make us wait; GitHub's window is an hour
	redirectMax = 3

	gatePoll    = 250 * time.Millisecond // how often our own admission is asked again
	arrivalPoll = 500 * time.Millisecond
	// arrivalMax is how long a run waits for what it asked for again.
	arrivalMax = 2 * time.Minute

	tickInterval = time.Second
	sayInterval  = 200 * time.Millisecond
	// settleTime after the last refusal of a gap the provider has it on record.
	settleTime = 30 * time.Second
	// againAfter is how soon a run by itself follows one that failed.
	againAfter = 5 * time.Minute
	// overlap of two runs by schedule: what a provider lists late is seen by the next one.
	overlap = 10 * time.Minute
	// freshTime is left out by runs by themselves: what is on its way comes by itself.
	freshTime = 30 * time.Second

	stateBytesMax = 64 << 10
	errorTextMax  = 512

	// stockMax bounds the stored requests that are read to know resources.
	stockMax = 200_000
	// stockSlack is by how much earlier than a resource's state, by the provider's clock, we may have
	// received it by ours.
	stockSlack = 5 * time.Minute
)
