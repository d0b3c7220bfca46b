package journal

// Facts is every fact there is, one row each; readers of stored journals find the Go type here by
// its name.
var Facts = []Fact{
	// written
	Written{}, Deleting{}, Removed{}, EvictionRefused{},
	// waiting, judged, bound
	Queued{}, Ruled{}, Bound{}, BindFailed{}, Preempting{}, Preempted{},
	// received, driven
	Accepted{}, Refused{}, Planned{}, Called{}, Waited{}, ContainerStarted{}, ContainerExited{}, BackingOff{},
	Killing{}, StopStep{}, Released{}, Resized{}, Stuck{}, Unstuck{}, StorageExceeded{},
	// furnished
	Pulling{}, PullQueued{}, PullProgress{}, Pulled{}, PullFailed{}, ImageTags{}, VolumeReady{}, VolumeWaiting{},
	// watched
	Probed{}, Forwarded{}, ConditionChanged{}, PhaseChanged{}, StatusWritten{},
	// led to
	TrafficBegins{}, TrafficEnds{}, RulesChanged{}, PoliciesChanged{},
	// everywhere
	Waiting{}, Acted{}, Foreign{},
}

var byKind = index(Facts)

func index(facts []Fact) map[string]Fact {
	m := make(map[string]Fact, len(facts))
	for _, f := range facts {
		m[Kind(f)] = f
	}
	return m
}
