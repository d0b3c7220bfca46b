package volume

import "time"

// Volumes that could not be made ready are tried again after half a second, then after twice as long each time, as upstream does. What becomes right in ConfigMaps and Secrets is tried at once.
const (
	firstRest = 500 * time.Millisecond
	maxRest   = 2*time.Minute + 2*time.Second
)

// Rest is how long to wait after so many failures in a row.
func Rest(failures int) time.Duration {
	d := firstRest
	for range min(failures, 10) - 1 {
		d *= 2
	}
	return min(d, maxRest)
}
