package noderole

import (
	"time"
)

// runtimeAgain is the pause before a runtime that was away is asked again.
const runtimeAgain = 100 * time.Millisecond
