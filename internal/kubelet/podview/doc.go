// Package podview decides what one Pod's status shows of its containers, and which facts are
// reported of them.
//
// Next takes the last View and one step of the Pod's worker (a decision, the begin, the progress or
// the end of a plan) and returns the new View and what to report, in order: facts for the journal,
// events, a status for the API. It holds what podstatus, which remembers nothing, cannot know: the
// last two failures of a start (upstream's reasonCache), which containers are being restarted and
// are shown as they ran, which back-offs and exits were reported already.
//
// In: a View (the zero View: nothing was shown yet) and a Step. Out: a View and Facts. Pure: the
// same input gives the same output, and the View that goes in stays as it is. Only podworker calls
// it, from the one goroutine of the Pod.
//
// To add what is shown across looks: a field of View, set in the step that learns it, and a
// transcript under testdata.
package podview
