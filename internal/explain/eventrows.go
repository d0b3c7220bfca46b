package explain

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/pod"
)

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
	probeKills    = regexp.MustCompile(`^(?:Init c|C)ontainer (\S+) failed (liveness|startup) probe`)
	hookKills     = regexp.MustCompile(`(?i)^(?:Container (\S+) )?failed ?poststart ?hook`)
	resizeKills   = regexp.MustCompile(`^Container \S+ resize requires restart`)
	changedKills  = regexp.MustCompile(`^(?:Init c|C)ontainer (\S+) definition changed`)
	pullWords     = regexp.MustCompile(`(?s)^Failed to pull image "([^"]+)": (.*)$`)
	imageWords    = regexp.MustCompile(`image "([^"]+)"`)
	volumeWords   = regexp.MustCompile(`(?s)^\S+ failed for volume "([^"]+)" : (.*)$`)
	attachWords   = regexp.MustCompile(`(?s)^(Multi-Attach error|Waiting for detach) for volume "([^"]+)" (.*)$`)
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
	case resizeKills.MatchString(e.Message):
		f.Cause = resizeCause
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

// pullSecrets are a Pod's imagePullSecrets as the namespace has them; none where the caller may not
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
		if pod.IsClaim(v) {
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
	who := "pod " + m[1]
	if by := podMeant(in.ClusterContext, m[1]); by != nil {
		who = fmt.Sprintf("pod %s/%s (priority %d)", by.Namespace, by.Name, pod.Priority(by))
		if in.Pod != nil {
			return []journal.Fact{journal.Preempted{By: by.Namespace + "/" + by.Name, Node: m[2],
				Class: by.Spec.PriorityClassName, Priority: pod.Priority(by), Own: pod.Priority(in.Pod)}}
		}
	}
	return []journal.Fact{journal.Acted{Controller: "kube-scheduler", Action: "deleted",
		Message: fmt.Sprintf("it was preempted on node %s for %s", m[2], who)}}
}

// podMeant is a Pod of the cluster by its UID, or by NAMESPACE/NAME; nil when none is seen.
func podMeant(c *ClusterContext, text string) *corev1.Pod {
	if c == nil {
		return nil
	}
	for _, p := range c.Pods {
		if string(p.UID) == text || p.Namespace+"/"+p.Name == text {
			return p
		}
	}
	return nil
}

func taintFacts(_ In, e *corev1.Event) []journal.Fact {
	if !strings.HasPrefix(e.Message, "Marking for deletion") {
		return nil
	}
	return []journal.Fact{journal.Acted{Controller: "taint-eviction-controller", Action: "deleted",
		Message: "its node has a taint that it does not tolerate, or no longer"}}
}
