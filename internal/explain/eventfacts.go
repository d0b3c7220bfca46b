package explain

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
)

// factsOf makes facts of one event about a Pod; rows are by the event's reason, their texts are
// upstream's.
var factsOf = map[string]func(In, *corev1.Event) []journal.Fact{
	"Unhealthy":              probedFacts,
	"Killing":                killingFacts,
	"FailedPostStartHook":    hookFacts,
	"Started":                startedFacts,
	"Pulling":                pullingFacts,
	"Pulled":                 pulledFacts,
	"Failed":                 pullFailedFacts,
	"FailedMount":            volumeFacts,
	"FailedAttachVolume":     volumeFacts,
	"FailedMapVolume":        volumeFacts,
	"FailedCreatePodSandBox": sandboxFacts,
	"FailedScheduling":       ruledFacts,
	"Scheduled":              boundFacts,
	"Preempted":              preemptedFacts,
	"TaintManagerEviction":   taintFacts,
}

// FactsOfEvents are the entries of a journal that a Pod's events and status stand for, oldest
// first: what an API server without a journal knows of them. Of repeated events the first and the
// last time are known. Nothing is made up: what events do not say (sockets, peaks of memory, whether
// a hook still runs, who deleted a Pod) is in no entry.
func FactsOfEvents(in In) []journal.Entry {
	var out []journal.Entry
	put := func(at time.Time, by string, facts ...journal.Fact) {
		for _, f := range facts {
			out = append(out, journal.Entry{At: at, Ref: in.Ref, By: by, Fact: f})
		}
	}
	for i := range in.Events {
		e := &in.Events[i]
		facts, ok := factsOf[e.Reason]
		if !ok || e.InvolvedObject.Kind != "" && e.InvolvedObject.Kind != "Pod" {
			continue
		}
		list := facts(in, e)
		if first := firstTime(e); first.Before(eventTime(e)) {
			put(first, e.Source.Component, list...)
		}
		put(eventTime(e), e.Source.Component, list...)
	}
	if in.Pod != nil {
		statusFacts(in.Pod, put)
	}
	slices.SortStableFunc(out, func(a, b journal.Entry) int { return a.At.Compare(b.At) })
	if in.Pod != nil {
		out = slices.DeleteFunc(out, func(e journal.Entry) bool { return overtaken(in, e) })
	}
	counted(in.Pod, out, in.Events)
	return out
}

// firstTime is when an event happened first.
func firstTime(e *corev1.Event) time.Time {
	switch {
	case !e.FirstTimestamp.IsZero():
		return e.FirstTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return eventTime(e)
}

var namedContainer = regexp.MustCompile(`\{([^}]+)\}`)

// containerOf is the container that an event is about; empty: the whole Pod.
func containerOf(e *corev1.Event) string {
	if m := namedContainer.FindStringSubmatch(e.InvolvedObject.FieldPath); m != nil {
		return m[1]
	}
	return ""
}

// specOf is a container of a Pod by name; nil when there is none.
func specOf(p *corev1.Pod, name string) *corev1.Container {
	if p == nil {
		return nil
	}
	for _, c := range containers(p) {
		if c.spec.Name == name {
			return c.spec
		}
	}
	return nil
}

var probeWords = regexp.MustCompile(`(?s)^(Liveness|Readiness|Startup) probe ` +
	`(failed|errored and resulted in unknown state|errored): (.*)$`)

func probedFacts(in In, e *corev1.Event) []journal.Fact {
	m := probeWords.FindStringSubmatch(e.Message)
	if m == nil {
		return nil
	}
	f := journal.Probed{Container: containerOf(e), Probe: strings.ToLower(m[1]), Result: "failure", Message: m[3],
		Count: 1}
	if m[2] != "failed" {
		f.Result = "unknown"
	}
	if c := specOf(in.Pod, f.Container); c != nil {
		if p := probeOf(c, f.Probe); p != nil {
			f.Threshold = int(p.FailureThreshold)
		}
	}
	return []journal.Fact{f}
}

var (
	probeKills    = regexp.MustCompile(`^Container (\S+) failed (liveness|startup) probe`)
	hookKills     = regexp.MustCompile(`(?i)^(?:Container (\S+) )?failed ?poststart ?hook`)
	changedKills  = regexp.MustCompile(`^Container (\S+) definition changed`)
	pullWords     = regexp.MustCompile(`(?s)^Failed to pull image "([^"]+)": (.*)$`)
	imageWords    = regexp.MustCompile(`image "([^"]+)"`)
	volumeWords   = regexp.MustCompile(`(?s)^\S+ failed for volume "([^"]+)" : (.*)$`)
	attachWords   = regexp.MustCompile(`(?s)^(Multi-Attach error) for volume "([^"]+)" (.*)$`)
	unreadVolumes = regexp.MustCompile(`(?s)failed to process volumes=\[([^\] ]+)[^\]]*\]: (.*)$`)
	assignedWords = regexp.MustCompile(`^Successfully assigned \S+ to (\S+)$`)
	preemptWords  = regexp.MustCompile(`^Preempted by (?:pod )?(\S+) on node (\S+)$`)
)

// killingFacts are containers that are stopped for a probe, a hook or a change. That a Pod's
// deletion stops its containers is no fact here: how far that has come is not told.
func killingFacts(in In, e *corev1.Event) []journal.Fact {
	f := journal.Killing{Container: containerOf(e)}
	if in.Pod != nil && in.Pod.Spec.TerminationGracePeriodSeconds != nil {
		f.Grace = *in.Pod.Spec.TerminationGracePeriodSeconds
	}
	switch m := probeKills.FindStringSubmatch(e.Message); {
	case m != nil:
		f.Container, f.Cause = m[1], m[2]+" probe failed"
		if c := specOf(in.Pod, m[1]); c != nil {
			if p := probeOf(c, m[2]); p != nil && p.TerminationGracePeriodSeconds != nil {
				f.Grace = *p.TerminationGracePeriodSeconds
			}
		}
	case hookKills.MatchString(e.Message):
		f.Cause = "postStart hook failed"
	case changedKills.MatchString(e.Message):
		f.Cause = "changed"
	default:
		return nil
	}
	return []journal.Fact{f}
}

func hookFacts(_ In, e *corev1.Event) []journal.Fact {
	return []journal.Fact{journal.Killing{Container: containerOf(e), Cause: "postStart hook failed"}}
}

// startedFacts is the start of a container's present run.
func startedFacts(in In, e *corev1.Event) []journal.Fact {
	if in.Pod == nil {
		return nil
	}
	for _, c := range containers(in.Pod) {
		if c.spec.Name != containerOf(e) || c.status == nil {
			continue
		}
		if t := c.status.LastTerminationState.Terminated; c.status.State.Terminated != nil ||
			t != nil && !t.FinishedAt.Time.Before(eventTime(e)) {
			return nil // of a run that is over
		}
		return []journal.Fact{journal.ContainerStarted{Container: c.spec.Name, ID: c.status.ContainerID,
			Restart: int(c.status.RestartCount), Init: c.init}}
	}
	return nil
}

func pullingFacts(_ In, e *corev1.Event) []journal.Fact {
	if m := imageWords.FindStringSubmatch(e.Message); m != nil {
		return []journal.Fact{journal.Pulling{Image: m[1], Container: containerOf(e)}}
	}
	return nil
}

func pulledFacts(_ In, e *corev1.Event) []journal.Fact {
	if m := imageWords.FindStringSubmatch(e.Message); m != nil {
		return []journal.Fact{journal.Pulled{Image: m[1], Present: strings.Contains(e.Message, "already present")}}
	}
	return nil
}

func pullFailedFacts(in In, e *corev1.Event) []journal.Fact {
	m := pullWords.FindStringSubmatch(e.Message)
	if m == nil {
		return nil
	}
	return []journal.Fact{journal.PullFailed{Image: m[1], Reason: "ErrImagePull", Message: m[2],
		Secrets: pullSecrets(in)}}
}

// pullSecrets are a Pod's imagePullSecrets as the namespace has them; none where the asker may not
// read them.
func pullSecrets(in In) []journal.PullSecret {
	if in.Pod == nil || in.NamespaceContext == nil || in.NamespaceContext.Secrets == nil {
		return nil
	}
	var out []journal.PullSecret
	for _, r := range in.Pod.Spec.ImagePullSecrets {
		s := journal.PullSecret{Name: r.Name, Hosts: in.NamespaceContext.Registries[r.Name]}
		if _, there := in.NamespaceContext.Secrets[r.Name]; !there {
			s.Error = "there is no such Secret"
		} else if len(s.Hosts) == 0 {
			s.Error = "it holds no credentials of a registry"
		}
		out = append(out, s)
	}
	return out
}

// volumeFacts are volumes that cannot be attached or mounted.
func volumeFacts(in In, e *corev1.Event) []journal.Fact {
	f := journal.VolumeWaiting{}
	if m := volumeWords.FindStringSubmatch(e.Message); m != nil {
		f.Volume, f.Message = m[1], m[2]
	} else if m := attachWords.FindStringSubmatch(e.Message); m != nil {
		f.Volume, f.Message = m[2], m[1]+": "+m[3]
	} else if m := unreadVolumes.FindStringSubmatch(e.Message); m != nil {
		f.Volume, f.Message = m[1], m[2]
	} else {
		return nil
	}
	f.Volume, f.Type = volumeNamed(in.Pod, f.Volume)
	return []journal.Fact{f}
}

// volumeNamed is the volume of a Pod that an event means, by its own name or, where the Pod has one
// claim alone, that of the PersistentVolume; with its type.
func volumeNamed(p *corev1.Pod, name string) (volume, kind string) {
	if p == nil {
		return name, "volume"
	}
	var claims []string
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		if v.Name == name {
			return name, volumeType(v)
		}
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			claims = append(claims, v.Name)
		}
	}
	if len(claims) == 1 {
		return claims[0], "persistentVolumeClaim"
	}
	return name, "persistentVolume"
}

// volumeType is the name of a volume's source as manifests have it.
func volumeType(v *corev1.Volume) string {
	switch s := &v.VolumeSource; {
	case s.ConfigMap != nil:
		return "configMap"
	case s.Secret != nil:
		return "secret"
	case s.Projected != nil:
		return "projected"
	case s.HostPath != nil:
		return "hostPath"
	case s.PersistentVolumeClaim != nil, s.Ephemeral != nil:
		return "persistentVolumeClaim"
	case s.CSI != nil:
		return "csi"
	case s.NFS != nil:
		return "nfs"
	case s.EmptyDir != nil:
		return "emptyDir"
	case s.DownwardAPI != nil:
		return "downwardAPI"
	case s.Image != nil:
		return "image"
	}
	return "volume"
}

func sandboxFacts(_ In, e *corev1.Event) []journal.Fact {
	return []journal.Fact{journal.Called{Service: "CRI", Method: "RunPodSandbox",
		Error: strings.TrimPrefix(e.Message, "Failed to create pod sandbox: ")}}
}

func ruledFacts(_ In, e *corev1.Event) []journal.Fact {
	return []journal.Fact{journal.Ruled{Message: e.Message}}
}

func boundFacts(_ In, e *corev1.Event) []journal.Fact {
	if m := assignedWords.FindStringSubmatch(e.Message); m != nil {
		return []journal.Fact{journal.Bound{Node: m[1]}}
	}
	return nil
}

// preemptedFacts tell who took a Pod's place: by UID, as upstream's scheduler says it, or by name,
// as older ones do.
func preemptedFacts(in In, e *corev1.Event) []journal.Fact {
	m := preemptWords.FindStringSubmatch(e.Message)
	if m == nil {
		return nil
	}
	if in.ClusterContext != nil {
		for _, p := range in.ClusterContext.Pods {
			if (string(p.UID) == m[1] || p.Namespace+"/"+p.Name == m[1]) && p.Spec.Priority != nil {
				f := journal.Preempted{By: p.Namespace + "/" + p.Name, Class: p.Spec.PriorityClassName,
					Priority: *p.Spec.Priority, Node: m[2]}
				if in.Pod != nil && in.Pod.Spec.Priority != nil {
					f.Own = *in.Pod.Spec.Priority
				}
				return []journal.Fact{f}
			}
		}
	}
	return []journal.Fact{journal.Acted{Controller: "kube-scheduler", Action: "deleted", Message: fmt.Sprintf(
		"it was preempted on node %s for Pod %s of higher priority", m[2], m[1])}}
}

func taintFacts(_ In, e *corev1.Event) []journal.Fact {
	if !strings.HasPrefix(e.Message, "Marking for deletion") {
		return nil
	}
	return []journal.Fact{journal.Acted{Controller: "taint-eviction-controller", Action: "deleted",
		Message: "its node has a taint that it does not tolerate, or no longer"}}
}

// counted gives the newest failure of each probe the number of its failures: of all its events, and
// no more than the container's run has had periods for.
func counted(p *corev1.Pod, entries []journal.Entry, events []corev1.Event) {
	type key struct{ container, probe string }
	all := map[key]int{}
	for i := range events {
		if m := probeWords.FindStringSubmatch(events[i].Message); m != nil && events[i].Reason == "Unhealthy" {
			all[key{containerOf(&events[i]), strings.ToLower(m[1])}] += timesOf(&events[i])
		}
	}
	if p == nil {
		return
	}
	for i := len(entries) - 1; i >= 0; i-- {
		f, ok := entries[i].Fact.(journal.Probed)
		n := all[key{f.Container, f.Probe}]
		if !ok || n == 0 {
			continue
		}
		f.Count = min(n, periodsOf(p, f, entries[i].At))
		entries[i].Fact = f
		delete(all, key{f.Container, f.Probe})
	}
}

// timesOf is how often an event happened.
func timesOf(e *corev1.Event) int {
	n := max(int(e.Count), 1)
	if e.Series != nil {
		n = max(n, int(e.Series.Count))
	}
	return n
}

// periodsOf is how often a probe can have been asked in a container's present run until a time.
func periodsOf(p *corev1.Pod, f journal.Probed, until time.Time) int {
	for _, c := range containers(p) {
		if c.spec.Name != f.Container || c.status == nil || c.status.State.Running == nil {
			continue
		}
		probe := probeOf(c.spec, f.Probe)
		if run := until.Sub(c.status.State.Running.StartedAt.Time); probe != nil && run >= 0 {
			return int(run/secondsOf(int64(max(probe.PeriodSeconds, 1)))) + 1
		}
	}
	return int(^uint(0) >> 1)
}

// statusFacts puts what a Pod's status alone tells: that the kubelet has it, how containers ended,
// and how long they are held back.
func statusFacts(p *corev1.Pod, put func(time.Time, string, ...journal.Fact)) {
	if t := p.Status.StartTime; t != nil {
		put(t.Time, "kubelet", journal.Accepted{Source: "api"})
	}
	for _, c := range containers(p) {
		if c.status == nil {
			continue
		}
		for _, t := range []*corev1.ContainerStateTerminated{c.status.LastTerminationState.Terminated,
			c.status.State.Terminated} {
			if t != nil {
				put(t.FinishedAt.Time, "kubelet", journal.ContainerExited{Container: c.spec.Name, ID: t.ContainerID,
					ExitCode: t.ExitCode, Signal: t.Signal, Reason: t.Reason, Message: t.Message})
			}
		}
		w, t := c.waiting(), c.status.LastTerminationState.Terminated
		if w == nil || t == nil {
			continue
		}
		if m := pauseWords.FindStringSubmatch(w.Message); m != nil {
			if d, err := time.ParseDuration(m[1]); err == nil {
				put(t.FinishedAt.Time, "kubelet", journal.BackingOff{Container: c.spec.Name, What: w.Reason,
					Delay: journal.Took(d), Until: t.FinishedAt.Add(d), Message: w.Message})
			}
		}
	}
}

// pauseWords are the kubelet's for a container that it does not start yet.
var pauseWords = regexp.MustCompile(`^back-off (\S+) restarting failed container`)

// overtaken tells whether what happened later shows that a failure is past: a volume or sandbox of
// a Pod whose containers are made, a scheduler's refusal of one that has a node.
func overtaken(in In, e journal.Entry) bool {
	p := in.Pod
	switch e.Fact.(type) {
	case journal.Called:
		c := condition(p, corev1.PodReadyToStartContainers)
		return len(p.Status.PodIPs) > 0 || c != nil && c.Status == corev1.ConditionTrue
	case journal.VolumeWaiting:
		return containersBegun(in, e.At)
	}
	return false
}

// containersBegun tells whether the kubelet has come to a Pod's containers after a time: it does so
// when all volumes are there.
func containersBegun(in In, after time.Time) bool {
	for i := range in.Events {
		x := &in.Events[i]
		if slices.Contains([]string{"Pulling", "Pulled", "Created", "Started"}, x.Reason) && eventTime(x).After(after) {
			return true
		}
	}
	return false
}
