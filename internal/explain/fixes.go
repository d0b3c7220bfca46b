package explain

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/gantry-project/gantry/internal/explain/whatif"
)

// editedPodFix is a fix that changes the Pod's specification for good: by its owner's template, or
// by the Pod made anew. change is given a copy of the container's Pod.
func editedPodFix(in In, say string, change func(*corev1.PodSpec)) Fix {
	now := in.Pod.DeepCopy()
	change(&now.Spec)
	if o := whatif.OwnerOf(in.Pod); o.Kind == "job" {
		return commandFix(say,
			recreateJob(in.Ref.Namespace, o.Name, `"template":{"spec":`+whatif.Patch(in.Pod, now)+`}`))
	}
	return Fix{Description: say, Run: whatif.Commands(in.Pod, now)}
}

// recreateJob is the command that makes a Job anew with a changed specification: a Job's template
// cannot be changed. What the API server gave the old Job to know its Pods by goes.
func recreateJob(namespace, name, spec string) string {
	drop := `{"spec":{"selector":null,"template":{"metadata":{"labels":{"controller-uid":null,` +
		`"batch.kubernetes.io/controller-uid":null}}}}}`
	return fmt.Sprintf("kubectl -n %s get job %s -o json | kubectl patch --local -f - --type=merge -p %s -o json | "+
		"kubectl patch --local -f - --type=strategic -p %s -o json | kubectl replace --force -f -",
		namespace, name, whatif.Quoted(drop), whatif.Quoted(`{"spec":{`+spec+`}}`))
}

// editedContainer is edited for one container.
func editedContainer(in In, name, say string, change func(*corev1.Container)) Fix {
	return editedPodFix(in, say, func(s *corev1.PodSpec) {
		for _, list := range [][]corev1.Container{s.InitContainers, s.Containers} {
			for i := range list {
				if list[i].Name == name {
					change(&list[i])
				}
			}
		}
	})
}

// op is one operation of a JSON patch.
type op struct {
	Op    string `json:"op"`
	From  string `json:"from,omitempty"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// jsonPatchFix is a fix by a JSON patch of the specification, for what a merge cannot say. Paths
// begin below spec.
func jsonPatchFix(in In, say string, ops ...op) Fix {
	p, o := in.Pod, whatif.OwnerOf(in.Pod)
	below := "/spec"
	if o.Kind != "" {
		below = "/spec/template/spec"
	}
	for i := range ops {
		ops[i].Path = below + ops[i].Path
		if ops[i].From != "" {
			ops[i].From = below + ops[i].From
		}
	}
	patch, err := json.Marshal(ops)
	if err != nil || o.Kind == "job" {
		return Fix{Description: say}
	}
	if o.Kind == "" {
		return commandFix(say,
			fmt.Sprintf("kubectl -n %s get pod %s -o json | kubectl patch --local -f - --type=json -p %s -o json | "+
				"kubectl replace --force -f -", p.Namespace, p.Name, whatif.Quoted(string(patch))))
	}
	return commandFix(say, fmt.Sprintf("kubectl -n %s patch %s %s --type=json -p %s", p.Namespace, o.Kind, o.Name,
		whatif.Quoted(string(patch))))
}

// commandTarget is what to name in a command that changes the Pod or its template: pod/web,
// deployment/web.
func commandTarget(p *corev1.Pod) string {
	if o := whatif.OwnerOf(p); o.Kind != "" {
		return o.Kind + "/" + o.Name
	}
	return "pod/" + p.Name
}

// logsOf is the command that shows what a container said.
func logsOf(in In, container string) Fix {
	return commandFix("see what it says", fmt.Sprintf("kubectl -n %s logs %s -c %s", in.Ref.Namespace, in.Ref.Name,
		container))
}
