package volume

import "time"

// Volumes that could not be made ready are tried again after half a second, then after twice as
// long each time, as upstream does. What becomes right in ConfigMaps and Secrets is tried at once.
const (
	initialDelay = 500 * time.Millisecond
	maxDelay     = 2*time.Minute + 2*time.Second
)

// BackOff is how long to wait after so many failures in a row.
func BackOff(failures int) time.Duration {
	d := initialDelay
	for range min(failures, 10) - 1 {
		d *= 2
	}
	return min(d, maxDelay)
}
