package volume

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// A service-account token is renewed at the latest at this age, however long it is valid.
const maxTokenAge = 24 * time.Hour

// TokenRefreshTime is when a token must be replaced: at 80 % of its life, after a day at the
// latest.
func TokenRefreshTime(expires time.Time, life time.Duration) time.Time {
	due := expires.Add(-life / 5)
	if day := expires.Add(maxTokenAge - life); day.Before(due) {
		return day
	}
	return due
}

// TokenOwner is the user all containers of the Pod run as, nil when they differ or one says
// nothing; the token then belongs to it alone.
func TokenOwner(pod *v1.Pod) *int64 {
	var user *int64
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			u := runAsUser(pod, &list[i])
			if u == nil || user != nil && *user != *u {
				return nil
			}
			user = u
		}
	}
	return user
}

func runAsUser(pod *v1.Pod, c *v1.Container) *int64 {
	if c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
		return c.SecurityContext.RunAsUser
	}
	if pod.Spec.SecurityContext != nil {
		return pod.Spec.SecurityContext.RunAsUser
	}
	return nil
}
