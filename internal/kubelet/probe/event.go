package probe

import (
	"fmt"
	"strings"
)

// Event is what an outcome is worth telling as a Kubernetes event; ok is false for a plain success.
type Event struct{ Reason, Message string }

// EventFor words an outcome as upstream does.
func EventFor(k Kind, o Outcome) (e Event, ok bool) {
	name := strings.ToUpper(string(k[:1])) + string(k[1:])
	switch {
	case o.Err != nil:
		return Event{"Unhealthy", fmt.Sprintf("%s probe errored and resulted in unknown state: %v", name, o.Err)}, true
	case o.Result == Warning:
		return Event{"ProbeWarning", fmt.Sprintf("%s probe warning: %s", name, o.Output)}, true
	case o.Result == Success:
		return Event{}, false
	}
	return Event{"Unhealthy", fmt.Sprintf("%s probe failed: %s", name, o.Output)}, true
}

// String names the result as the journal does.
func (o Outcome) String() string {
	switch {
	case o.Err != nil:
		return "unknown"
	case o.Result == Success, o.Result == Warning:
		return "success"
	}
	return "failure"
}

// ContainerGone tells whether a container could not be asked because it had just ended: nobody has
// to be told, its end is reported elsewhere.
func ContainerGone(err error) bool {
	if err == nil {
		return false
	}
	for _, text := range []string{"container is in CONTAINER_EXITED state", "no running task found",
		"cannot exec in a stopped"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}
