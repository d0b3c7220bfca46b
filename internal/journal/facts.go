package journal

// Facts has one value of each type of fact; decoding finds the Go type here by its name.
var Facts = []Fact{
	// API server: writes and deletion
	Written{}, Deleting{}, Removed{}, EvictionRefused{},
	// scheduler: queue, scheduling cycle, binding cycle, preemption
	Queued{}, Ruled{}, Bound{}, BindFailed{}, Preempting{}, Preempted{},
	// kubelet: admission, plans, runtime calls, containers
	Accepted{}, Refused{}, Planned{}, Called{}, Waited{}, ContainerStarted{}, ContainerExited{}, BackingOff{},
	Killing{}, StopStep{}, Released{}, Resized{}, Stuck{}, Unstuck{}, StorageExceeded{},
	Evicted{}, EvictionThresholdMet{}, EvictionsFruitless{},
	// kubelet: images and volumes
	Pulling{}, PullQueued{}, PullProgress{}, Pulled{}, PullFailed{}, ImageTags{}, VolumeReady{}, VolumeWaiting{},
	// kubelet: probes, port forwarding, status
	Probed{}, Forwarded{}, ConditionChanged{}, PhaseChanged{}, StatusWritten{},
	// network: Services and policies
	TrafficBegins{}, TrafficEnds{}, RulesChanged{}, PoliciesChanged{},
	// any component
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
