package finding

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// longerThanOthers is how long a container of a Job's Pod runs after the others have ended until
// that is worth telling, when nothing shows that it is a server.
const longerThanOthers = 30 * time.Second

// keptRunning finds a container of a Job's Pod that runs on when another has ended: the Pod, and
// with it the Job, ends only when it does. Sidecars among the init containers do not count.
func keptRunning(c *Cluster, o metav1.Object, self Object) []Finding {
	p, ok := o.(*corev1.Pod)
	owner := metav1.GetControllerOf(o)
	if !ok || owner == nil || owner.Kind != "Job" || p.DeletionTimestamp != nil ||
		p.Status.Phase != corev1.PodRunning || p.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		return nil
	}
	ended, code, last := "", int32(0), time.Time{}
	running := map[string]bool{}
	for _, s := range p.Status.ContainerStatuses {
		switch t := s.State.Terminated; {
		case t != nil && (t.ExitCode == 0 || p.Spec.RestartPolicy == corev1.RestartPolicyNever):
			if t.FinishedAt.After(last) {
				ended, code, last = s.Name, t.ExitCode, t.FinishedAt.Time
			}
		case s.State.Running != nil:
			running[s.Name] = true
		default:
			return nil // one is to be started yet
		}
	}
	root := c.outermost(o, self)
	spec, at := podSpecOf(c.Get(root))
	if spec == nil {
		root, spec, at = self, &p.Spec, "spec"
	}
	var out []Finding
	for i := range p.Spec.Containers {
		x := &p.Spec.Containers[i]
		after := c.Now.Sub(last)
		if ended == "" || !running[x.Name] || after < settleTime || after < longerThanOthers && !isServer(x) {
			continue
		}
		f := Finding{Code: "JobKeptRunning", Severity: Threat, Stage: StageRun, Object: root,
			Field: fmt.Sprintf("%s.containers[%d]", at, i), Value: x.Name, Want: "initContainers",
			Related: []Object{self}, Numbers: map[string]string{"exitCode": fmt.Sprint(code),
				"after": after.Round(time.Second).String()},
			Message: fmt.Sprintf("Container %s of Pod %s still runs %s after container %s ended with exit code %d: a "+
				"Job's Pod has ended when all its containers have. If %s only serves the other, it is a sidecar, "+
				"which stands among the initContainers with restartPolicy Always: it is then ended with the others.",
				x.Name, self.Name, after.Round(time.Second), ended, code, x.Name)}
		if i < len(spec.Containers) && spec.Containers[i].Name == x.Name {
			f.Remedies = []Remedy{c.asSidecar(root, spec, at, i)}
		}
		out = append(out, f)
	}
	return out
}

// isServer reports whether a container shows that it serves: it has ports, or is asked whether it
// is ready or lives.
func isServer(x *corev1.Container) bool {
	return len(x.Ports) > 0 || x.ReadinessProbe != nil || x.LivenessProbe != nil
}

// asSidecar is the remedy that makes a container of a spec, whose path is at, a sidecar.
func (c *Cluster) asSidecar(o Object, spec *corev1.PodSpec, at string, i int) Remedy {
	x := spec.Containers[i].DeepCopy()
	always := corev1.ContainerRestartPolicyAlways
	x.RestartPolicy = &always
	r := Remedy{Say: fmt.Sprintf("make container %s a sidecar: move it to initContainers, with restartPolicy Always",
		x.Name)}
	raw, err := json.Marshal(x)
	if err != nil {
		return r
	}
	add := fmt.Sprintf(`{"op":"add","path":%s,"value":[%s]}`, jsonText(pointer(at+".initContainers")), raw)
	if len(spec.InitContainers) > 0 {
		add = fmt.Sprintf(`{"op":"add","path":%s,"value":%s}`, jsonText(pointer(at+".initContainers")+"/-"), raw)
	}
	r.Run = c.patchCommand(o, fmt.Sprintf(`[%s,{"op":"remove","path":%s}]`, add,
		jsonText(pointer(fmt.Sprintf("%s.containers[%d]", at, i)))))
	return r
}
