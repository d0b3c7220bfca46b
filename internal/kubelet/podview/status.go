package podview

import (
	v1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/internal/kubelet/podplan"
	"github.com/gantry-project/gantry/internal/kubelet/podstatus"
	"github.com/gantry-project/gantry/internal/pod"
)

// statusChanges tells what changed between two statuses: phase and conditions.
func statusChanges(old, s v1.PodStatus) (facts []Fact) {
	if old.Phase != s.Phase {
		facts = append(facts, Journal{journal.PhaseChanged{Phase: string(s.Phase), Reason: s.Reason,
			Message: s.Message}})
	}
	for _, c := range s.Conditions {
		was := v1.PodCondition{}
		for _, o := range old.Conditions {
			if o.Type == c.Type {
				was = o
			}
		}
		if was.Status != c.Status {
			facts = append(facts, Journal{journal.ConditionChanged{Type: string(c.Type), Status: string(c.Status),
				Reason: c.Reason, Message: c.Message}})
		}
	}
	return facts
}

// reportExits tells which containers have ended, each once, unless the API knows it already from an
// earlier kubelet.
func (v View) reportExits(l Look) (View, []Fact) {
	var facts []Fact
	exits := v.reported.exits
	known := terminated(l.In.Pod.Status)
	for _, c := range l.In.Observed.Containers {
		if c.State != podplan.Exited || c.Sandbox == "" || exits[c.ID] {
			continue
		}
		exits = with(exits, c.ID, true)
		if !known[l.Node.Runtime+"://"+c.ID] {
			facts = append(facts, Journal{journal.ContainerExited{Container: c.Name, ID: c.ID, ExitCode: c.Exit.Code,
				Reason: c.Exit.Reason, Message: c.Exit.Message}})
		}
	}
	v.reported.exits = exits
	return v, facts
}

// terminated are the IDs, with the runtime's prefix, of containers that a status shows to have
// ended.
func terminated(s v1.PodStatus) map[string]bool {
	out := map[string]bool{}
	for _, list := range [][]v1.ContainerStatus{s.InitContainerStatuses, s.ContainerStatuses,
		s.EphemeralContainerStatuses} {
		for _, st := range list {
			for _, t := range []*v1.ContainerStateTerminated{st.State.Terminated, st.LastTerminationState.Terminated} {
				if t != nil {
					out[t.ContainerID] = true
				}
			}
		}
	}
	return out
}

// Status is the newest status; nil before the first. It must not be changed.
func (v View) Status() *v1.PodStatus { return v.status }

// Overlay is the Pod with the newest status laid over what the API has: the kubelet's fields from
// the former, others' conditions from the latter, so that a decision does not depend on how fast
// the API is. The Pod itself while there is no status.
func (v View) Overlay(p *v1.Pod) *v1.Pod {
	if v.status == nil {
		return p
	}
	out := *p
	out.Status = overlay(*v.status.DeepCopy(), p.Status)
	return &out
}

// overlay is status s with what others write into it: foreign conditions, nominatedNodeName and
// claim statuses of api. A terminal phase of api stays.
func overlay(s, api v1.PodStatus) v1.PodStatus {
	owned := map[v1.PodConditionType]bool{}
	for _, c := range podstatus.OwnedConditions {
		owned[c] = true
	}
	var out []v1.PodCondition
	if pod.IsPhaseTerminal(s.Phase) && pod.Condition(&v1.Pod{Status: s}, v1.DisruptionTarget) != nil {
		owned[v1.DisruptionTarget] = true // it came with the terminal phase; the API may not have it yet
	}
	for _, c := range api.Conditions {
		if !owned[c.Type] {
			out = append(out, c)
		}
	}
	for _, c := range s.Conditions {
		if owned[c.Type] {
			out = append(out, c)
		}
	}
	s.Conditions = out
	s.NominatedNodeName, s.ResourceClaimStatuses, s.ExtendedResourceClaimStatus = api.NominatedNodeName,
		api.ResourceClaimStatuses, api.ExtendedResourceClaimStatus
	if pod.IsPhaseTerminal(api.Phase) && s.Phase != api.Phase {
		s.Phase, s.Reason, s.Message = api.Phase, api.Reason, api.Message
	}
	return s
}
