package doctor

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/gantry-project/gantry/internal/pod"
)

// volumeHealth names volumes and storage of which CSI drivers say that something is wrong, with the
// Pods that have them.
func volumeHealth(f Facts) []Finding {
	if f.Storage == nil {
		return nil
	}
	type report struct{ node, claim, status, reason, message string }
	pods := map[report][]string{}
	var order []report
	for _, p := range f.Storage.Unhealthy {
		for _, h := range p.Status.VolumeHealth {
			for _, c := range h.HealthConditions {
				r := report{p.Spec.NodeName, volumeOf(&p, h.Name), string(c.Status), c.Reason, c.Message}
				if pods[r] == nil {
					order = append(order, r)
				}
				pods[r] = append(pods[r], p.Namespace+"/"+p.Name)
			}
		}
	}
	level := map[string]Level{string(v1.VolumeHealthDegraded): Warning, string(storagev1.StorageDegraded): Warning}
	worst := func(status string) Level {
		if l, ok := level[status]; ok {
			return l
		}
		return Problem
	}
	var out []Finding
	for _, r := range order {
		about, driver := f.Storage.driverOf(r.claim)
		out = append(out, Finding{About: about, Level: worst(r.status),
			Text: fmt.Sprintf("CSI driver %s says on node %s that this volume is %s (%s): %s; "+
				"Pods that have it there: %s", driver, r.node, r.status, r.reason, r.message, some(pods[r])),
			Fix: "mend what the driver names; before anything else, copy what can still be read, or " +
				"stop who writes there"})
	}
	for _, n := range f.Storage.CSINodes {
		for _, h := range n.Status.StorageHealth {
			for _, c := range h.HealthConditions {
				out = append(out, Finding{About: n.Name, Level: worst(string(c.Status)),
					Text: fmt.Sprintf("CSI driver %s says that its storage is %s from there (%s): %s", h.Name, c.Status,
						c.Reason, c.Message),
					Fix: "mend what the driver names, or keep Pods with its volumes off the node"})
			}
		}
	}
	return out
}

// volumeOf is NAMESPACE/CLAIM of one of the Pod's volumes, or NAMESPACE/POD/VOLUME of an inline
// one.
func volumeOf(p *v1.Pod, volume string) string {
	for i := range p.Spec.Volumes {
		if name, _ := pod.ClaimName(p, &p.Spec.Volumes[i]); p.Spec.Volumes[i].Name == volume && name != "" {
			return p.Namespace + "/" + name
		}
	}
	return p.Namespace + "/" + p.Name + "/" + volume
}

// driverOf is what a claim is called, and the driver of its volume.
func (s *Storage) driverOf(claim string) (about, driver string) {
	for _, v := range s.Volumes {
		if r := v.Spec.ClaimRef; v.Spec.CSI != nil && r != nil && r.Namespace+"/"+r.Name == claim {
			return "pv/" + v.Name, v.Spec.CSI.Driver
		}
	}
	return claim, "of an inline volume"
}
