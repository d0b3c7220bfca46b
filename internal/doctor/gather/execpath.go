package gather

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gantry-project/gantry/internal/cri"
	"github.com/gantry-project/gantry/internal/doctor"
)

// ExecTarget is the container that exec is tried into.
type ExecTarget struct{ Namespace, Pod, Container string }

// ExecHops tries the way of kubectl exec from the outside to the container, each hop without those
// before it where that can be done.
func (s *Gatherer) ExecHops(ctx context.Context, client kubernetes.Interface, to ExecTarget) []doctor.ExecHop {
	try := func(h doctor.ExecHop, ask func(context.Context) error) doctor.ExecHop {
		ctx, cancel := context.WithTimeout(ctx, Timeout)
		defer cancel()
		begun := time.Now()
		h.Err = ask(ctx)
		h.Took = time.Since(begun)
		return h
	}
	node := ""
	out := []doctor.ExecHop{
		try(doctor.ExecHop{Name: "API server", Response: "HTTPS", Fix: "start it, or mend the way to it"},
			func(ctx context.Context) error {
				p, err := client.CoreV1().Pods(to.Namespace).Get(ctx, to.Pod, metav1.GetOptions{})
				if err == nil {
					node = p.Spec.NodeName
				}
				return err
			})}
	if node != "" {
		out = append(out, try(doctor.ExecHop{Name: "kubelet of " + node, Response: "HTTPS, through the API server",
			Fix: "start the kubelet, or open its port to the API server"}, func(ctx context.Context) error {
			_, err := client.CoreV1().RESTClient().Get().Resource("nodes").Name(node).SubResource("proxy").Suffix(
				"healthz").DoRaw(ctx)
			return err
		}))
	}
	var runtime *cri.Client
	out = append(out,
		try(doctor.ExecHop{Name: "container runtime", Response: "CRI over gRPC on " + s.Instance.RuntimeEndpoint(),
			Fix: "start the runtime"}, func(ctx context.Context) (err error) {
			runtime, err = cri.Dial(ctx, cri.Options{Endpoint: s.Instance.RuntimeEndpoint(), Timeout: Timeout,
				FailFast: true})
			return err
		}))
	if runtime == nil {
		return out
	}
	defer runtime.Close()
	return append(out,
		try(doctor.ExecHop{Name: "shim and process of " + to.Pod, Response: "CRI ExecSync",
			Fix: "the shim or the container's processes hang (state D in ps?): delete the Pod; with --force its node " +
				"waits no longer for it"}, func(ctx context.Context) error {
			return probeExec(ctx, runtime, to)
		}))
}

// probeExec runs a program in the container and takes any end of it for an answer: images without
// /bin/true answer that it is not there.
func probeExec(ctx context.Context, runtime *cri.Client, to ExecTarget) error {
	labels := map[string]string{"io.kubernetes.pod.namespace": to.Namespace, "io.kubernetes.pod.name": to.Pod}
	if to.Container != "" {
		labels["io.kubernetes.container.name"] = to.Container
	}
	list, err := runtime.ProbeRuntime().ListContainers(ctx, &runtimeapi.ContainerFilter{
		LabelSelector: labels,
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
	})
	switch {
	case err != nil:
		return err
	case len(list) == 0:
		return fmt.Errorf("no container of Pod %s/%s runs on this machine", to.Namespace, to.Pod)
	}
	_, _, err = runtime.ProbeRuntime().ExecSync(ctx, list[0].Id, []string{"/bin/true"}, Timeout)
	if err != nil && ctx.Err() == nil && commandNotStarted(err) {
		return nil
	}
	return err
}

// commandNotStarted tells the answers that a process could not begin, or ended badly, from no
// answer.
func commandNotStarted(err error) bool {
	var ended interface{ ExitStatus() int }
	return errors.As(err, &ended) || strings.Contains(err.Error(), "no such file or directory") ||
		strings.Contains(err.Error(), "executable file not found")
}
