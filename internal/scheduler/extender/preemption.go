package extender

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	"k8s.io/kube-scheduler/framework"
)

// ProcessPreemption asks which of the candidates and victims are right.
func (x *Extender) ProcessPreemption(p *v1.Pod, victims map[string]*extenderv1.Victims,
	nodes framework.NodeInfoLister) (map[string]*extenderv1.Victims, error) {
	if !x.SupportsPreemption() {
		return nil, fmt.Errorf("preempt verb is not defined for extender %v but run into ProcessPreemption",
			x.URLPrefix)
	}
	args := &extenderv1.ExtenderPreemptionArgs{Pod: p}
	if x.NodeCacheCapable {
		args.NodeNameToMetaVictims = map[string]*extenderv1.MetaVictims{}
		for node, v := range victims {
			meta := &extenderv1.MetaVictims{NumPDBViolations: v.NumPDBViolations}
			for _, o := range v.Pods {
				meta.Pods = append(meta.Pods, &extenderv1.MetaPod{UID: string(o.UID)})
			}
			args.NodeNameToMetaVictims[node] = meta
		}
	} else {
		args.NodeNameToVictims = victims
	}
	var answer extenderv1.ExtenderPreemptionResult
	if err := x.send(x.PreemptVerb, args, &answer); err != nil {
		return nil, err
	}
	out := map[string]*extenderv1.Victims{}
	for node, meta := range answer.NodeNameToMetaVictims {
		v, err := x.victimsOf(node, meta, nodes)
		if err != nil {
			return nil, err
		}
		out[node] = v
	}
	return out, nil
}

// victimsOf finds the Pods that an answer names by UID.
func (x *Extender) victimsOf(node string, meta *extenderv1.MetaVictims,
	nodes framework.NodeInfoLister) (*extenderv1.Victims, error) {
	n, err := nodes.Get(node)
	if err != nil {
		return nil, fmt.Errorf("extender %v names node %q: %w", x.URLPrefix, node, err)
	}
	there := map[string]*v1.Pod{}
	for _, o := range n.GetPods() {
		there[string(o.GetPod().UID)] = o.GetPod()
	}
	v := &extenderv1.Victims{NumPDBViolations: meta.NumPDBViolations}
	for _, m := range meta.Pods {
		p := there[m.UID]
		if p == nil {
			return nil, fmt.Errorf("extender: %v claims to preempt pod (UID: %v) on node: %v, but the pod is not "+
				"found on that node", x.URLPrefix, m.UID, node)
		}
		v.Pods = append(v.Pods, p)
	}
	return v, nil
}
