package explain

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
)

// nextStartText says when a CronJob starts its next Job, in UTC and in its own time zone.
func nextStartText(c *batchv1.CronJob, next time.Time) string {
	text := fmt.Sprintf("which has not come: by its schedule %s the next start is %s", c.Spec.Schedule,
		next.UTC().Format(time.RFC3339))
	if z := c.Spec.TimeZone; z != nil {
		if at, err := time.LoadLocation(*z); err == nil {
			text += fmt.Sprintf(", which is %s in time zone %s (spec.timeZone)", next.In(at).Format("2 January 15:04"),
				*z)
		}
	}
	return text
}
