package images

import (
	"fmt"
	"time"

	"github.com/distribution/reference"
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/reason"
)

// Decision is what to do about an image.
type Decision int

// Decisions.
const (
	Use    Decision = iota // it is there and may be used
	Pull                   // ask the registry
	Refuse                 // it is not there and must not be pulled
)

// Decide applies the pull policy. present tells whether the runtime has the image. An unknown or
// empty policy is IfNotPresent.
func Decide(policy v1.PullPolicy, present bool) Decision {
	switch {
	case policy == v1.PullAlways:
		return Pull
	case present:
		return Use
	case policy == v1.PullNever:
		return Refuse
	}
	return Pull
}

// Normalize completes a reference with the tag "latest" when it has neither tag nor digest, and
// returns it otherwise as it was written. The error is a *reason.Refusal InvalidImageName with
// upstream's text.
func Normalize(image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", &reason.Refusal{
			Code: reason.InvalidImageName, By: "kubelet/image",
			Detail: fmt.Sprintf("Failed to apply default image tag %q: couldn't parse image name %q: %v", image, image,
				err),
			Fix: "write the image as [registry/]name[:tag][@digest] in lower case",
		}
	}
	_, tagged := named.(reference.Tagged)
	_, digested := named.(reference.Digested)
	if tagged || digested {
		return image, nil
	}
	return image + ":latest", nil
}

// Default delays of pulls that failed.
const (
	FirstDelay = 10 * time.Second
	MaxDelay   = 300 * time.Second
)

// BackOff is the history of one image's failed pulls for one Pod. The zero value has none.
type BackOff struct {
	Delay time.Duration // after the last failure
	Until time.Time     // no pull before
	Error string        // what the last failure said, with its code: ErrImagePull: …
}

// Waiting tells whether a pull at now comes too early.
func (b BackOff) Waiting(now time.Time) bool { return now.Before(b.Until) }

// Stale tells whether the history is so old that it no longer counts: no failure for twice the
// longest delay.
func (b BackOff) Stale(now time.Time, longest time.Duration) bool {
	return now.Sub(b.Until) > 2*longest
}

// Failed adds a failure at now: the first delay, then double the last one up to the longest.
func (b BackOff) Failed(now time.Time, first, longest time.Duration, cause string) BackOff {
	delay := first
	if b.Delay > 0 && !b.Stale(now, longest) {
		delay = min(2*b.Delay, longest)
	}
	return BackOff{Delay: delay, Until: now.Add(delay), Error: cause}
}

// FullName is an image's name with registry, path and tag or digest, as runtimes list it: busybox
// is docker.io/library/busybox:latest.
func FullName(name string) (string, error) {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return "", err
	}
	return reference.TagNameOnly(named).String(), nil
}
