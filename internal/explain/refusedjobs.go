package explain

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// refusedLast explains a CronJob whose newest Job the API server refused.
func (s Subject) refusedLast(a *Answer, c *batchv1.CronJob) bool {
	e := s.newestEvent("FailedCreate")
	if e == nil || c.Status.LastScheduleTime != nil && e.LastTimestamp.Before(c.Status.LastScheduleTime) {
		return false
	}
	words := strings.TrimPrefix(strings.TrimPrefix(e.Message, "(combined from similar events): "),
		"Error creating job: ")
	a.State, a.Since, a.Next = "without Jobs", e.FirstTimestamp.Time, "it tries again at its next time"
	a.causedAt = []finding.Stage{finding.StageCreation}
	a.Cause = fmt.Sprintf("Its Jobs cannot be made: the API server refuses them: %s.", strings.TrimSuffix(words, "."))
	a.Facts = append(a.Facts, "the API server's words: "+words)
	return true
}
